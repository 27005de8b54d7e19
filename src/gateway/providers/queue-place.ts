import { steadyNow } from "../../lib/steady-clock.ts";
import type { QueuedClient, SlotQueue } from "../slots/slot-queue.ts";

/** The place of one request in its provider's queue for `maxConcurrent`. */
export class QueuePlace<W extends QueuedClient> {
  readonly #queue: SlotQueue<W>;
  readonly #call: W;
  readonly #onWaited: ((ms: number) => void) | undefined;
  #state: "none" | "waiting" | "inside" = "none";
  #since = 0;

  /** `onWaited` is called at the end of a wait, if there is one, with its milliseconds. */
  constructor(queue: SlotQueue<W>, call: W, onWaited: ((ms: number) => void) | undefined) {
    this.#queue = queue;
    this.#call = call;
    this.#onWaited = onWaited;
  }

  get isWaiting(): boolean {
    return this.#state === "waiting";
  }

  /** The queue has kept it. */
  wait(): void {
    this.#state = "waiting";
    this.#since = steadyNow();
  }

  admitted(): void {
    this.#endWait();
    this.#state = "inside";
  }

  /** The queue has given it up, or never had it. */
  refused(): void {
    this.#endWait();
    this.#state = "none";
  }

  leave(): void {
    const state = this.#state;
    this.refused();
    if (state === "waiting") this.#queue.leave(this.#call);
    else if (state === "inside") this.#queue.finish();
  }

  #endWait(): void {
    if (this.#state === "waiting") this.#onWaited?.(steadyNow() - this.#since);
  }
}
