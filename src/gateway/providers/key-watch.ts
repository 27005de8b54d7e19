export interface KeyWatchOptions {
  /** Why there is no usable key now; undefined: there is one. */
  readonly check: () => Promise<string | undefined>;
  readonly onProblem: (message: string | undefined) => void;
  /** Undefined: the first result never changes. */
  readonly everyMs: number | undefined;
}

/** Checks a provider's key at intervals, so that a missing one is known before the first request fails. */
export class KeyWatch implements Disposable {
  readonly #options: KeyWatchOptions;
  readonly #timer: NodeJS.Timeout | undefined;
  #isChecking = false;
  #isDisposed = false;

  constructor(options: KeyWatchOptions) {
    this.#options = options;
    void this.#check();
    if (options.everyMs !== undefined) this.#timer = setInterval(() => void this.#check(), options.everyMs).unref();
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    clearInterval(this.#timer);
  }

  async #check(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    try {
      const problem = await this.#options.check();
      if (!this.#isDisposed) this.#options.onProblem(problem);
    } finally {
      this.#isChecking = false;
    }
  }
}
