export interface KeyWatchOptions {
  /** Why there is no usable key now; undefined: there is one. */
  readonly look: () => Promise<string | undefined>;
  readonly onProblem: (message: string | undefined) => void;
  /** Undefined: the first result never changes. */
  readonly everyMs: number | undefined;
}

/** Checks a provider's key at intervals, so that a missing one is known before the first request fails. */
export class KeyWatch implements Disposable {
  readonly #options: KeyWatchOptions;
  readonly #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #isDisposed = false;

  constructor(options: KeyWatchOptions) {
    this.#options = options;
    void this.#look();
    if (options.everyMs !== undefined) this.#timer = setInterval(() => void this.#look(), options.everyMs).unref();
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const problem = await this.#options.look();
      if (!this.#isDisposed) this.#options.onProblem(problem);
    } finally {
      this.#isLooking = false;
    }
  }
}
