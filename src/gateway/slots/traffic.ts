import { ownEntry } from "../../lib/record.ts";
import { isAvailable, type SlotState } from "../../api/states.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { OtherDemand } from "../../store/store.ts";
import type { KnownSlot } from "../routing/index.ts";

/** `serving` ends this long after the last request (DECISIONS 20). */
const servingTailMs = 2000;
/** The demand is published this often in any case. */
const heartbeatMs = 1000;

export interface SlotTraffic {
  inFlight: number;
  held: number;
  /** By the steady clock; 0 never. */
  lastRequestAt: number;
  lastByteAt: number;
  lastEndAt: number;
}

/** This gateway's requests in progress, per slot. `serving` and `idle` follow from them. */
export class Traffic {
  readonly #slots = new Map<string, SlotTraffic>();
  readonly #onEdge: (slot: string) => void;
  readonly #others: OtherDemand | undefined;

  /** `onEdge` is called when a slot changes between none and one request. `others`: for `elsewhere`. */
  constructor(onEdge: (slot: string) => void, others?: OtherDemand) {
    this.#onEdge = onEdge;
    this.#others = others;
  }

  of(slot: string): SlotTraffic {
    let traffic = this.#slots.get(slot);
    if (traffic === undefined) {
      traffic = { inFlight: 0, held: 0, lastRequestAt: 0, lastByteAt: 0, lastEndAt: 0 };
      this.#slots.set(slot, traffic);
    }
    return traffic;
  }

  inFlight(slot: string): number {
    return this.#slots.get(slot)?.inFlight ?? 0;
  }

  /** The sum of the other gateways' requests, as they have published it. */
  elsewhere(slot: string): { readonly inFlight: number; readonly held: number } {
    const sum = { inFlight: 0, held: 0 };
    for (const { slots } of this.#others?.list() ?? []) {
      sum.inFlight += ownEntry(slots, slot)?.inFlight ?? 0;
      sum.held += ownEntry(slots, slot)?.held ?? 0;
    }
    return sum;
  }

  begin(slot: string, now = steadyNow()): SlotTraffic {
    const traffic = this.of(slot);
    traffic.inFlight += 1;
    traffic.lastRequestAt = now;
    if (traffic.inFlight === 1) {
      // The idle time of an engine begins with its first request, not with the last answer of an earlier time.
      traffic.lastByteAt = traffic.lastRequestAt;
      this.#onEdge(slot);
    }
    return traffic;
  }

  end(slot: string, now = steadyNow()): void {
    const traffic = this.of(slot);
    traffic.inFlight -= 1;
    traffic.lastEndAt = now;
    if (traffic.inFlight === 0) this.#onEdge(slot);
  }

  /** A request waits for the slot. */
  hold(slot: string): void {
    const traffic = this.of(slot);
    traffic.held += 1;
    traffic.lastRequestAt = steadyNow();
    if (traffic.held === 1) this.#onEdge(slot);
  }

  /** A waiting request waits no longer. */
  release(slot: string): void {
    const traffic = this.of(slot);
    traffic.held -= 1;
    if (traffic.held === 0) this.#onEdge(slot);
  }

  /**
   * A request that could not be served counts as demand too. Of many that follow each other the first one is an edge:
   * otherwise a client that repeats a refused request would have the demand written as often.
   */
  requested(slot: string, now = steadyNow()): void {
    const traffic = this.of(slot);
    const before = traffic.lastRequestAt;
    traffic.lastRequestAt = now;
    if (before === 0 || now - before >= heartbeatMs) this.#onEdge(slot);
  }

  entries(): IterableIterator<[string, SlotTraffic]> {
    return this.#slots.entries();
  }

  /** The published state, overlaid with this gateway's own facts. */
  stateOf(slot: KnownSlot, now = steadyNow()): SlotState {
    const state = slot.status?.state ?? "offline";
    if (!isAvailable(state)) return state;
    const traffic = this.#slots.get(slot.name);
    if (traffic === undefined || traffic.lastRequestAt === 0) return state;
    return traffic.inFlight > 0 || now - traffic.lastEndAt < servingTailMs ? "serving" : "idle";
  }
}
