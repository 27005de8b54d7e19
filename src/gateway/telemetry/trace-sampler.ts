import { steadyNow } from "../../lib/steady-clock.ts";
import type { Sampling } from "./trace-context.ts";

/** A person reads no more traces, and a flood of requests must not become a flood of spans. */
const limitPerSecond = 100;

/**
 * Chooses the requests to trace: a part of those whose client has not decided, and so many a second at most; and of those
 * that their clients have sampled, as many again.
 */
export class TraceSampler implements Sampling {
  readonly #part: number;
  readonly #own: PerSecond;
  readonly #ofClients: PerSecond;

  /** `part` from 0 to 1; 1 is all of them, without a limit, also for clients. `now`: milliseconds of a monotonic clock. */
  constructor(part: number, now: () => number = steadyNow) {
    this.#part = part;
    this.#own = new PerSecond(now);
    this.#ofClients = new PerSecond(now);
  }

  choose(): boolean {
    if (this.#part >= 1) return true;
    return Math.random() < this.#part && this.#own.take();
  }

  chooseOfClient(): boolean {
    return this.#part >= 1 || this.#ofClients.take();
  }
}

class PerSecond {
  readonly #now: () => number;
  #second = -1;
  /** Taken in that second. */
  #count = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  take(): boolean {
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#count = 0;
    }
    this.#count += 1;
    return this.#count <= limitPerSecond;
  }
}
