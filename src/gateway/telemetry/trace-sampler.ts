import { steadyNow } from "../../lib/steady-clock.ts";
import type { Sampling } from "./trace-context.ts";

/**
 * A person reads no more traces, and a flood of requests must not become a flood of spans: a traced one takes a sixth to a
 * quarter more of the processor's time.
 */
const ownPerSecond = 20;
/** More: each is a part of a trace that its client has begun. */
const clientsPerSecond = 100;

/**
 * Chooses the requests to trace: a part of those whose client has not decided, and of those that their clients have sampled, each
 * up to its limit of a second.
 */
export class TraceSampler implements Sampling {
  readonly #part: number;
  readonly #own: PerSecond;
  readonly #ofClients: PerSecond;
  /** Requests until the next one of the part: by chance, as if each were drawn. */
  #skipped: number;

  /** `part` from 0 to 1; 1 is all of them, without a limit, also for clients. `now`: milliseconds of a monotonic clock. */
  constructor(part: number, now: () => number = steadyNow) {
    this.#part = part;
    this.#own = new PerSecond(ownPerSecond, now);
    this.#ofClients = new PerSecond(clientsPerSecond, now);
    this.#skipped = this.#draw();
  }

  choose(): boolean {
    if (this.#part >= 1) return true;
    this.#skipped -= 1;
    if (this.#skipped >= 0) return false;
    this.#skipped = this.#draw();
    return this.#own.take();
  }

  chooseOfClient(): boolean {
    return this.#part >= 1 || this.#ofClients.take();
  }

  #draw(): number {
    return this.#part <= 0 ? Infinity : Math.floor(Math.log1p(-Math.random()) / Math.log1p(-this.#part));
  }
}

class PerSecond {
  readonly #limit: number;
  readonly #now: () => number;
  #second = -1;
  /** Taken in that second. */
  #count = 0;

  constructor(limit: number, now: () => number) {
    this.#limit = limit;
    this.#now = now;
  }

  take(): boolean {
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#count = 0;
    }
    this.#count += 1;
    return this.#count <= this.#limit;
  }
}
