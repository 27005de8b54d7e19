import { steadyNow } from "../../lib/steady-clock.ts";

/** A person reads no more traces, and a flood of requests must not become a flood of spans. */
const limitPerSecond = 100;

/** Chooses the requests to trace, of those whose client has not decided: a part of them, and so many a second at most. */
export class TraceSampler {
  readonly #part: number;
  readonly #now: () => number;
  #second = -1;
  /** Chosen in that second. */
  #count = 0;

  /** `part` from 0 to 1; 1 is all of them, without a limit. `now`: milliseconds of a monotonic clock. */
  constructor(part: number, now: () => number = steadyNow) {
    this.#part = part;
    this.#now = now;
  }

  choose(): boolean {
    if (this.#part >= 1) return true;
    if (Math.random() >= this.#part) return false;
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#count = 0;
    }
    this.#count += 1;
    return this.#count <= limitPerSecond;
  }
}
