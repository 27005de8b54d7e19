import { Circuit, type CircuitState, type CircuitPermit } from "./circuit.ts";
import type { Outcome } from "./provider-failure.ts";

/** The permit of one request, to be settled once. */
export interface Permit {
  succeed(): void;
  /** `outcome`: why there is no answer. */
  fail(outcome: Outcome): void;
  /** The client disconnected before the outcome. */
  abandon(): void;
}

/** A circuit is open: the request must not be sent now. */
export interface Rejection {
  readonly retryAfterMs: number;
  /** The subject of the failures. */
  readonly of: "provider" | "model";
}

/** Outcomes that mean that the provider is down, for any model. Any other may concern one model alone. */
const downOutcomes: ReadonlySet<Outcome> = new Set(["unreachable", "502", "503", "504"]);

const providerOptions = { failures: 5, openMs: 10_000, maxOpenMs: 300_000 };
const modelOptions = { failures: 5, openMs: 10_000, maxOpenMs: 60_000 };
/** The limit of failing models; beyond it the model with the oldest failure is forgotten. */
const modelLimit = 200;

/** A circuit for the provider as a whole, and one for each of its models: one that fails does not block the others. */
export class Circuits {
  readonly #now: () => number;
  #provider: Circuit;
  /** The circuits of models that have failed since their last success. */
  readonly #models = new Map<string, Circuit>();

  constructor(now: () => number) {
    this.#now = now;
    this.#provider = new Circuit(providerOptions, now);
  }

  get state(): CircuitState {
    return this.#provider.state;
  }

  /** Models that get no requests now, or only one. */
  get pausedModels(): number {
    return [...this.#models.values()].filter(({ state }) => state !== "closed").length;
  }

  /** Resets every failure: outcomes of earlier permits no longer count. */
  reset(): void {
    this.#provider = new Circuit(providerOptions, this.#now);
    this.#models.clear();
  }

  admit(model: string): Permit | Rejection {
    const provider = this.#provider.admit();
    if (typeof provider === "number") return { retryAfterMs: provider, of: "provider" };
    const own = this.#models.get(model)?.admit();
    if (typeof own === "number") {
      provider.abandon();
      return { retryAfterMs: own, of: "model" };
    }
    return this.#permit(model, provider, own);
  }

  #permit(model: string, provider: CircuitPermit, own: CircuitPermit | undefined): Permit {
    return {
      succeed: () => {
        provider.succeed();
        own?.succeed();
        if (this.#models.get(model)?.state === "closed") this.#models.delete(model);
      },
      fail: (outcome) => {
        if (downOutcomes.has(outcome)) {
          provider.fail();
          own?.abandon();
          return;
        }
        // The provider itself has answered, so it is up.
        if (/^\d+$/.test(outcome)) provider.succeed();
        else provider.abandon();
        (own ?? this.#failing(model))?.fail();
      },
      abandon: () => {
        provider.abandon();
        own?.abandon();
      },
    };
  }

  /** For a request that was sent before its model had failed. */
  #failing(model: string): CircuitPermit | undefined {
    const circuit = this.#models.get(model) ?? new Circuit(modelOptions, this.#now);
    // The model that failed last stands last.
    this.#models.delete(model);
    this.#models.set(model, circuit);
    const [oldest] = this.#models.keys();
    if (this.#models.size > modelLimit && oldest !== undefined) this.#models.delete(oldest);
    const permit = circuit.admit();
    return typeof permit === "number" ? undefined : permit;
  }
}
