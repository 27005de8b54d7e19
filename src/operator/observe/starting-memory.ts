import type { Fit } from "../../api/fit.ts";
import type { HardwareFacts } from "../../api/hardware.ts";
import type { PublishedSlot, SlotStatus } from "../../api/status.ts";
import type { Budget } from "../../models/fit/budget.ts";
import { deviceNamed } from "../../models/fit/device-name.ts";
import type { Reservation, SlotMemories } from "../slot-memory.ts";

type Machine = Pick<HardwareFacts, "gpus"> | undefined;

/**
 * The memory of GPUs for slots that are being loaded. A GPU counts as free what an engine has not allocated yet, so two
 * slots that are decided about at once would both find room, and the later one would run out of memory.
 *
 * A start is claimed after its decision and until its status is published, from where the published state counts. A claim
 * is refused where another slot was claimed since the decision's facts were read: the slot is decided about again.
 */
export class StartingMemory {
  readonly #published: ReadonlyMap<string, PublishedSlot>;
  readonly #memories: SlotMemories;
  readonly #machine: () => Machine;
  /** The number of the last claim of each device. */
  readonly #last = new Map<string, number>();
  #count = 0;

  constructor(published: ReadonlyMap<string, PublishedSlot>, memories: SlotMemories, machine: () => Machine) {
    this.#published = published;
    this.#memories = memories;
    this.#machine = machine;
  }

  /** The number of claims so far. */
  get count(): number {
    return this.#count;
  }

  /** The memory that other slots are about to take. */
  beside(slot: string): readonly Reservation[] {
    const known = [...this.#published].flatMap(([name, { status }]) =>
      this.#memories.of(name).claims === undefined ? this.#publishedOf(name, status) : [],
    );
    const claimed = [...this.#memories.all()].flatMap(([, { claims = [] }]) => claims);
    return [...known, ...claimed].filter((each) => each.slot !== slot && each.bytes > 0);
  }

  /**
   * Claims the memory of a start until disposed. Undefined: another slot has claimed memory of the same GPU since `count`
   * was read.
   */
  claim(slot: string, fit: Fit | undefined, count: number): Disposable | undefined {
    const wanted = this.#needsOf(slot, fit);
    if (wanted.length === 0) return { [Symbol.dispose]: () => undefined };
    if (wanted.some(({ device }) => (this.#last.get(device) ?? 0) > count)) return undefined;
    this.#count += 1;
    for (const { device } of wanted) this.#last.set(device, this.#count);
    const memory = this.#memories.of(slot);
    memory.claims = wanted;
    return { [Symbol.dispose]: () => void (memory.claims = undefined) };
  }

  #publishedOf(slot: string, { state, fit, processes }: SlotStatus): readonly Reservation[] {
    const isLoading = processes.some(({ isReady, drainingSince }) => !isReady && drainingSince === undefined);
    if (!isLoading || (state !== "starting" && state !== "warming" && state !== "ready")) return [];
    const { measured } = this.#memories.of(slot);
    // An earlier engine's memory is released already.
    const isOwn = processes.every(({ startedAt }) => measured !== undefined && measured.at >= new Date(startedAt ?? 0));
    const held = isOwn ? (measured?.memory?.devices ?? []) : [];
    return this.#needsOf(slot, fit).map((need) => ({
      ...need,
      bytes: need.bytes - (held.find(({ id }) => id === need.device)?.bytes ?? 0),
    }));
  }

  #needsOf(slot: string, fit: Fit | undefined): readonly Reservation[] {
    const machine = this.#machine();
    return (fit?.devices ?? [])
      .filter(({ id }) => id !== "host")
      .map(({ id, needBytes }) => ({ slot, device: deviceNamed(id, machine), bytes: needBytes }));
  }
}

/** The budgets without the memory that other slots are about to take. */
export function withoutReserved(
  budgets: readonly Budget[],
  reservations: readonly Reservation[],
  machine: Machine,
): readonly Budget[] {
  return budgets.map((budget) => {
    const { freeBytes } = budget;
    const device = deviceNamed(budget.id, machine);
    const own = reservations.filter((each) => each.device === device);
    if (freeBytes === undefined || own.length === 0) return budget;
    const wanted = own.reduce((sum, each) => sum + each.bytes, 0);
    const bytes = Math.min(freeBytes, wanted);
    const slots = [...new Set(own.map(({ slot }) => slot))];
    return { ...budget, freeBytes: freeBytes - bytes, reserved: { bytes, slots } };
  });
}
