import type { Compute } from "../api/compute.ts";
import type { KeptContext } from "../api/kept-context.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { SlotStatus } from "../api/status.ts";
import type { Observed } from "../api/workload.ts";
import type { ProbeTarget } from "../engines/engine.ts";
import type { Devices } from "../engines/placement.ts";
import type { WantedFit } from "./plan/growth.ts";
import type { Health } from "./plan/input.ts";

/** The results of probing one process, and what they are about. */
export interface ProcessHealth extends Health {
  /** Identifies the process; another process starts without memory. */
  readonly process: string;
  readonly probedAt: number;
  /** When it started, by the monotonic clock; undefined: before its first observation. */
  readonly startedMs?: number;
  /** When its socket was first missed, by the same clock; undefined: it listens, or was never ready. */
  readonly lostMs?: number;
  /** The last failure of the warm-up request; passed probes do not change it. */
  readonly warmUpMessage: string;
  /** In a row. */
  readonly warmUpFailures: number;
}

/** A probe or a warm-up request that one process has not answered yet. */
export interface RequestInProgress {
  readonly process: string;
  readonly kind: "probe" | "warmUp";
  readonly done: Promise<void>;
}

/** The probes of one warm process, one after the other. */
export interface Prober extends Disposable {
  readonly process: string;
  /** Takes over the newest observation and settings from the next probe on. */
  follow(process: Observed, target: ProbeTarget, probe: SlotSpec["probe"]): void;
}

/** A slot's occupancy of a place in its group, by its own plan: it requests a place, occupies one, or neither. */
export type Occupancy = "requesting" | "present" | "none";

/** Memory of a GPU that a slot which is being loaded has not taken yet. */
export interface Reservation {
  readonly slot: string;
  /** The GPU's id in the machine's probe. */
  readonly device: string;
  readonly bytes: number;
}

/** The memory of a slot's processes, as it was measured. */
export interface Measured {
  /** Undefined: unknown. */
  readonly memory: SlotStatus["memory"];
  readonly at: Date;
}

/** All that this operator remembers about one slot beside its published status. Nothing of it need outlive the operator. */
export class SlotMemory {
  /** Results of probing, by process name. */
  readonly health = new Map<string, ProcessHealth>();
  /** At most one for each process, by its name. */
  readonly requests = new Map<string, RequestInProgress>();
  /** Probers of warm processes, by process name. */
  readonly probers = new Map<string, Prober>();
  /** The devices that its main process has reported, and which process that was. */
  compute: { readonly process: string; readonly compute: Compute | undefined } | undefined;
  /** The memory of its processes at the last notable change, and now. */
  reported: SlotStatus["memory"];
  measured: Measured | undefined;
  /** The devices that its backend was last chosen for. */
  devices: Devices | undefined;
  /** The last save, restore or loss of the context that it keeps over an unload. */
  context: KeptContext | undefined;
  /**
   * By the name of the process: its last engine refused its directory for contexts, and ended. Engines of that key start without
   * one; the next operator tries again.
   */
  readonly contextRefusals = new Map<string, { readonly key: string; readonly message: string }>();
  /** By its last plan; undefined: this operator has made none yet. */
  occupancy: Occupancy | undefined;
  /** The need of the engine that it would start, where the published one is another's. */
  wanted: WantedFit | undefined;
  /** Since when its group waits for its first plan, by the monotonic clock. */
  unplannedSinceMs: number | undefined;
  /** Of a start that is decided and not published yet. */
  claims: readonly Reservation[] | undefined;
}

/** The memory of every slot: made when it is first asked for, and forgotten whole. */
export class SlotMemories {
  readonly #slots = new Map<string, SlotMemory>();

  of(slot: string): SlotMemory {
    const known = this.#slots.get(slot);
    if (known !== undefined) return known;
    const made = new SlotMemory();
    this.#slots.set(slot, made);
    return made;
  }

  /** Every memory that exists, with the name of its slot. */
  all(): Iterable<readonly [slot: string, memory: SlotMemory]> {
    return this.#slots;
  }

  forget(slot: string): void {
    for (const prober of this.#slots.get(slot)?.probers.values() ?? []) prober[Symbol.dispose]();
    this.#slots.delete(slot);
  }
}
