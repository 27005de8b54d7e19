const repeatMs = 60_000;

/**
 * A lasting failure, such as a full disk, logged when it begins, once a minute while it lasts, and when it ends: a line
 * per attempt would fill the log.
 */
export class FailureLog {
  readonly #onFailing: (error: unknown) => void;
  readonly #onEnd: () => void;
  readonly #now: () => number;
  #loggedAt: number | undefined;

  constructor(options: {
    onFailing: (error: unknown) => void;
    onEnd: () => void;
    /** Milliseconds of a monotonic clock; replaced in tests. */
    now?: () => number;
  }) {
    this.#onFailing = options.onFailing;
    this.#onEnd = options.onEnd;
    this.#now = options.now ?? (() => performance.now());
  }

  failed(error: unknown): void {
    const now = this.#now();
    if (this.#loggedAt !== undefined && now - this.#loggedAt < repeatMs) return;
    this.#loggedAt = now;
    this.#onFailing(error);
  }

  succeeded(): void {
    if (this.#loggedAt === undefined) return;
    this.#loggedAt = undefined;
    this.#onEnd();
  }
}
