import { modelNames } from "./catalog.ts";
import { errorMessage } from "../../lib/error-code.ts";

export interface DiscoveryOptions {
  readonly intervalMs: number;
  /** After a failure; doubled for each further one, up to the interval. */
  readonly retryMs: number;
  /** Known from before: what an earlier discovery of the same provider found. */
  readonly models: readonly string[];
  readonly list: (signal: AbortSignal) => Promise<unknown>;
  readonly onChange: () => void;
  /** The list was heard and is believed, whether or not it has changed. */
  readonly onHeard?: (models: readonly string[]) => void;
  /** The list could not be had; undefined: it can again. */
  readonly onProblem: (message: string | undefined) => void;
}

/** Asks a provider for its models again and again, away from every request. The last good list stays. */
export class Discovery implements Disposable {
  readonly #options: DiscoveryOptions;
  readonly #abort = new AbortController();
  #models: readonly string[];
  #failures = 0;
  #hasLooked = false;
  #hasSeenEmpty = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
    this.#models = options.models;
    void this.#look();
  }

  /** The provider has answered, or failed to, once at least. */
  get hasLooked(): boolean {
    return this.#hasLooked;
  }

  get models(): readonly string[] {
    return this.#models;
  }

  [Symbol.dispose](): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const { list, intervalMs, retryMs, onProblem } = this.#options;
    let problem: string | undefined;
    try {
      this.#take(modelNames(await list(this.#abort.signal)));
    } catch (error) {
      problem = errorMessage(error);
    }
    if (this.#abort.signal.aborted) return;
    this.#hasLooked = true;
    onProblem(problem);
    this.#failures = problem === undefined ? 0 : this.#failures + 1;
    const waitMs = problem === undefined ? intervalMs : Math.min(intervalMs, retryMs * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => void this.#look(), waitMs);
    this.#timer.unref();
  }

  #take(models: readonly string[]): void {
    if (this.#abort.signal.aborted) return;
    // An empty list may be a provider's bad moment: only the second one in a row is believed.
    const isDoubtful = models.length === 0 && this.#models.length > 0 && !this.#hasSeenEmpty;
    this.#hasSeenEmpty = models.length === 0;
    if (isDoubtful) return;
    this.#options.onHeard?.(models);
    const isSame = models.length === this.#models.length && models.every((model, at) => model === this.#models[at]);
    if (isSame) return;
    this.#models = models;
    this.#options.onChange();
  }
}
