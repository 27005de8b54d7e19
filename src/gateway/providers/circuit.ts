/**
 * Stops asking a provider that fails, and finds out with one request at a time when it works again.
 *
 *            `failures` in a row              after `openMs`, for one request
 *   closed ─────────────────────────▶ open ─────────────────────────────────▶ halfOpen
 *     ▲                                ▲ twice as long, up to `maxOpenMs` ────────┤ it failed
 *     └──────────────────────────────────────────────────────────────────────────┘ it succeeded
 */
export class Circuit {
  readonly #options: CircuitOptions;
  readonly #now: () => number;
  #state: CircuitState = "closed";
  #failures = 0;
  #openMs: number;
  #until = 0;
  /** Incremented with each change of state: outcomes of requests from an earlier state no longer count. */
  #epoch = 0;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(options: CircuitOptions, now: () => number) {
    this.#options = options;
    this.#now = now;
    this.#openMs = options.openMs;
  }

  get state(): CircuitState {
    return this.#state;
  }

  /** A permit for one request, which must be settled; or the milliseconds until the next attempt is useful. */
  admit(): CircuitPermit | number {
    if (this.#state === "halfOpen") return this.#options.openMs;
    if (this.#state === "open") {
      const left = this.#until - this.#now();
      if (left > 0) return left;
      this.#move("halfOpen");
    }
    return this.#permit(this.#epoch);
  }

  #permit(epoch: number): CircuitPermit {
    let isSettled = false;
    const settle = (act: () => void): void => {
      if (isSettled) return;
      isSettled = true;
      if (epoch === this.#epoch) act();
    };
    return {
      succeed: () => settle(() => this.#succeeded()),
      fail: () => settle(() => this.#failed()),
      abandon: () => settle(() => this.#abandoned()),
    };
  }

  #succeeded(): void {
    this.#failures = 0;
    if (this.#state !== "halfOpen") return;
    this.#openMs = this.#options.openMs;
    this.#move("closed");
  }

  #failed(): void {
    this.#failures += 1;
    if (this.#state === "closed" && this.#failures < this.#options.failures) return;
    if (this.#state === "halfOpen") this.#openMs = Math.min(this.#openMs * 2, this.#options.maxOpenMs);
    this.#until = this.#now() + this.#openMs;
    this.#move("open");
  }

  /** Without an outcome: the next request may try. */
  #abandoned(): void {
    if (this.#state === "halfOpen") this.#move("open");
  }

  #move(state: CircuitState): void {
    this.#state = state;
    this.#failures = 0;
    this.#epoch += 1;
  }
}

export type CircuitState = "closed" | "open" | "halfOpen";

export interface CircuitOptions {
  /** Failures in a row that open it. */
  readonly failures: number;
  readonly openMs: number;
  readonly maxOpenMs: number;
}

/** Settled once: the first call counts. */
export interface CircuitPermit {
  succeed(): void;
  fail(): void;
  /** The client disconnected before the outcome. */
  abandon(): void;
}
