import { modelNames } from "./catalog.ts";
import { errorMessage } from "../../lib/error-code.ts";

export interface DiscoveryOptions {
  readonly intervalMs: number;
  /** The delay after a failure; doubled for each further one, up to the interval. */
  readonly retryMs: number;
  /** The result of an earlier discovery of the same provider. */
  readonly models: readonly string[];
  readonly list: (signal: AbortSignal) => Promise<unknown>;
  readonly onChange: () => void;
  /** Called with each accepted list, changed or not. */
  readonly onHeard?: (models: readonly string[]) => void;
  /** The list could not be fetched; undefined: it can again. */
  readonly onProblem: (message: string | undefined) => void;
}

/** Fetches a provider's list of models repeatedly, independent of requests. The last valid list stays. */
export class Discovery implements Disposable {
  readonly #options: DiscoveryOptions;
  readonly #abort = new AbortController();
  #models: readonly string[];
  #failures = 0;
  #hasTried = false;
  #hasSeenEmpty = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DiscoveryOptions) {
    this.#options = options;
    this.#models = options.models;
    void this.#list();
  }

  /** The first attempt has ended, with or without success. */
  get hasTried(): boolean {
    return this.#hasTried;
  }

  get models(): readonly string[] {
    return this.#models;
  }

  [Symbol.dispose](): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
  }

  async #list(): Promise<void> {
    const { list, intervalMs, retryMs, onProblem } = this.#options;
    let problem: string | undefined;
    try {
      this.#take(modelNames(await list(this.#abort.signal)));
    } catch (error) {
      problem = errorMessage(error);
    }
    if (this.#abort.signal.aborted) return;
    this.#hasTried = true;
    onProblem(problem);
    this.#failures = problem === undefined ? 0 : this.#failures + 1;
    const waitMs = problem === undefined ? intervalMs : Math.min(intervalMs, retryMs * 2 ** (this.#failures - 1));
    this.#timer = setTimeout(() => void this.#list(), waitMs);
    this.#timer.unref();
  }

  #take(models: readonly string[]): void {
    if (this.#abort.signal.aborted) return;
    // An empty list may be a temporary fault of the provider: only the second one in a row is accepted.
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
