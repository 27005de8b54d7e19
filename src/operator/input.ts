import type { Compute } from "../api/compute.ts";
import type { ModelRecord } from "../api/model.ts";
import type { EngineProtocol, ProcessRole, RuntimeKind } from "../api/names.ts";
import type { SlotSpec } from "../api/slot.ts";
import type { PublishedSlot, SlotRequest, SlotStatus } from "../api/status.ts";
import type { Observed, Workload } from "../api/workload.ts";
import type { Derived, EngineRefusal } from "../engines/engine.ts";
import type { Diagnostic } from "../store/store.ts";
import type { SlotConflicts } from "./conflicts.ts";
import type { Missing } from "./preparing.ts";

/** What all live gateways together want of one slot. */
export interface SlotDemand {
  readonly held: number;
  readonly inFlight: number;
  readonly lastRequestAt: Date | undefined;
  readonly lastByteAt: Date | undefined;
  /** The lowest revision that a live gateway acts on; Infinity without gateways. */
  readonly seenRevision: number;
}

/** What probing has shown of the process that runs now; empty for a new process. */
export interface Health {
  readonly isHealthy: boolean;
  readonly isWarm: boolean;
  /** Failed probes in a row since it was last healthy. */
  readonly failures: number;
  readonly message: string;
  /** When it started, by the clock as it is set now; undefined: it was not looked at. */
  readonly startedAt?: Date;
  /** When it first listened; start-up time ends and warm-up begins. */
  readonly listeningAt: Date | undefined;
  /** It had become ready, and its port is its own no more since then: nothing may be sent there. */
  readonly lostAt?: Date;
  /** Its warm-up request failed: it is sent again then, and not before. */
  readonly warmUpAt?: Date;
  /** What it was seen to speak when it became warm; undefined: it was not asked. */
  readonly protocols?: readonly EngineProtocol[];
}

/** Everything one decision about one slot may look at: gathered first, frozen, judged by pure functions. */
export interface SlotInput {
  readonly name: string;
  readonly now: Date;
  /** The spec in force: the last good one. Undefined when it was never valid. */
  readonly spec: SlotSpec | undefined;
  readonly specHash: string;
  /** False when no manifest defines the slot any more (or never has, for a built-in). */
  readonly isDeclared: boolean;
  readonly file: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly diagnostics: readonly Diagnostic[];
  readonly conflicts: SlotConflicts;
  readonly before: PublishedSlot | undefined;
  readonly held: { readonly ref: string | undefined; readonly origin: "spec" | "swap" };
  readonly model: ModelRecord | undefined;
  readonly requests: readonly SlotRequest[];
  readonly demand: SlotDemand;
  readonly observed: readonly Observed[];
  readonly health: Readonly<Partial<Record<ProcessRole, Health>>>;
  /** The roles the slot needs; empty when nothing can be said without a spec. */
  readonly roles: readonly ProcessRole[];
  readonly workloads: readonly Workload[] | EngineRefusal;
  readonly runtime: RuntimeKind;
  readonly backend?: string;
  /** Why this runtime and backend. */
  readonly reasons?: { readonly runtime: string; readonly backend: string };
  /** What its adapter derives for a start, beyond runtime, backend and threads. */
  readonly derived?: Readonly<Record<string, Derived>>;
  /** What the next engine needs and is not here yet. */
  readonly missing?: Missing;
  /** The runtime cannot be asked now, and why: `observed` is what was last published. */
  readonly silence?: string;
  /** What the main process says that it computes on. */
  readonly compute?: Compute;
  /** What its processes hold, when that was last worth telling. */
  readonly memory?: SlotStatus["memory"];
  /** When another slot last gave memory back; undefined: not since this operator began. */
  readonly freedAt?: Date;
  readonly threads: { readonly value: number; readonly reason: string };
}

/** What was asked of the slot by a request of that kind. */
export function requestOf(input: Pick<SlotInput, "requests">, kind: SlotRequest["kind"]): SlotRequest | undefined {
  return input.requests.find((request) => request.kind === kind);
}

/** Milliseconds since the epoch of a published time; 0 when there is none. */
export function at(time: string | Date | undefined): number {
  return time === undefined ? 0 : new Date(time).getTime();
}

/** What lies further ahead of the clock than this is from before the clock was set back. */
const aheadMs = 10_000;

/** Whether a time, in milliseconds since the epoch, is from before the clock was set back. */
export function isFromAhead(time: number, now: Date): boolean {
  return time - now.getTime() > aheadMs;
}
