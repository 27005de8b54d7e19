const repeatMs = 60_000;

/**
 * A failure that lasts, such as a full disk, told when it begins, once a minute while it lasts, and when it ends: told
 * at each try, it would fill the log.
 */
export class Outage {
  readonly #onFailing: (error: unknown) => void;
  readonly #onEnd: () => void;
  readonly #now: () => number;
  #toldAt: number | undefined;

  constructor(options: {
    onFailing: (error: unknown) => void;
    onEnd: () => void;
    /** Milliseconds of a clock that never goes back; replaced in tests. */
    now?: () => number;
  }) {
    this.#onFailing = options.onFailing;
    this.#onEnd = options.onEnd;
    this.#now = options.now ?? (() => performance.now());
  }

  failed(error: unknown): void {
    const now = this.#now();
    if (this.#toldAt !== undefined && now - this.#toldAt < repeatMs) return;
    this.#toldAt = now;
    this.#onFailing(error);
  }

  succeeded(): void {
    if (this.#toldAt === undefined) return;
    this.#toldAt = undefined;
    this.#onEnd();
  }
}
