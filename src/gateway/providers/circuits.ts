import { Circuit, type CircuitState, type CircuitPermit } from "./circuit.ts";
import type { Outcome } from "./provider-failure.ts";

/** The provider itself has answered, so it is up. */
function isStatus(outcome: Outcome): boolean {
  return /^\d+$/.test(outcome);
}

/** The permit of one request, to be settled once. */
export interface Permit {
  succeed(): void;
  /** `outcome`: why there is no answer. `fingerprint` identifies the body; undefined: unknown. */
  fail(outcome: Outcome, fingerprint: () => string | undefined): void;
  /** The client disconnected before the outcome. */
  abandon(): void;
}

/** A circuit is open: the request must not be sent now. */
export interface Rejection {
  readonly retryAfterMs: number;
  /** The subject of the failures: the provider, or one of its models in that way. */
  readonly of: "provider" | { readonly outcome: Outcome };
}

/** Outcomes that mean that the provider is down, for any model. Any other may concern one model alone. */
const downOutcomes: ReadonlySet<Outcome> = new Set(["unreachable", "502", "503", "504"]);

const providerOptions = { failures: 5, openMs: 10_000, maxOpenMs: 300_000 };
const modelOptions = { failures: 5, openMs: 10_000, maxOpenMs: 60_000 };
/** The limit of failing models; beyond it the model with the oldest failure is forgotten. */
const modelLimit = 200;

/** The circuit of one model for one kind of failure. */
interface ModelCircuit {
  readonly circuit: Circuit;
  /** The bodies that failed since the last success: the same body sent again proves nothing new. */
  readonly fingerprints: Set<string>;
}

/**
 * A circuit for the provider as a whole, and one for each of its models and each kind of failure: a model, or a single
 * prompt, that the provider answers with 500 does not block other models.
 */
export class Circuits {
  readonly #now: () => number;
  #provider: Circuit;
  readonly #models = new Map<string, Map<Outcome, ModelCircuit>>();

  constructor(now: () => number) {
    this.#now = now;
    this.#provider = new Circuit(providerOptions, now);
  }

  get state(): CircuitState {
    return this.#provider.state;
  }

  /** Models that get no requests now, or only one. */
  get pausedModels(): number {
    let count = 0;
    for (const circuits of this.#models.values()) {
      if ([...circuits.values()].some(({ circuit }) => circuit.state !== "closed")) count += 1;
    }
    return count;
  }

  /** Resets every failure: outcomes of earlier permits no longer count. */
  reset(): void {
    this.#provider = new Circuit(providerOptions, this.#now);
    this.#models.clear();
  }

  admit(model: string): Permit | Rejection {
    const provider = this.#provider.admit();
    if (typeof provider === "number") return { retryAfterMs: provider, of: "provider" };
    const permits = new Map<Outcome, CircuitPermit>();
    for (const [outcome, { circuit }] of this.#models.get(model) ?? []) {
      const permit = circuit.admit();
      if (typeof permit !== "number") {
        permits.set(outcome, permit);
        continue;
      }
      provider.abandon();
      for (const admitted of permits.values()) admitted.abandon();
      return { retryAfterMs: permit, of: { outcome } };
    }
    return this.#permit(model, provider, permits);
  }

  #permit(model: string, provider: CircuitPermit, permits: ReadonlyMap<Outcome, CircuitPermit>): Permit {
    const abandonAll = (): void => {
      for (const permit of permits.values()) permit.abandon();
    };
    return {
      succeed: () => {
        provider.succeed();
        for (const permit of permits.values()) permit.succeed();
        this.#forget(model);
      },
      fail: (outcome, fingerprint) => {
        if (downOutcomes.has(outcome)) provider.fail();
        else {
          if (isStatus(outcome)) provider.succeed();
          else provider.abandon();
          this.#failed(model, outcome, fingerprint(), permits.get(outcome));
        }
        abandonAll();
      },
      abandon: () => {
        provider.abandon();
        abandonAll();
      },
    };
  }

  #failed(model: string, outcome: Outcome, fingerprint: string | undefined, admitted: CircuitPermit | undefined): void {
    const { circuit, fingerprints } = this.#circuitOf(model, outcome);
    const isTrial = circuit.state !== "closed";
    if (fingerprint !== undefined && !isTrial) {
      if (fingerprints.has(fingerprint)) return;
      fingerprints.add(fingerprint);
    }
    const permit = admitted ?? circuit.admit();
    if (typeof permit !== "number") permit.fail();
  }

  #circuitOf(model: string, outcome: Outcome): ModelCircuit {
    const circuits = this.#models.get(model) ?? new Map<Outcome, ModelCircuit>();
    this.#models.delete(model);
    this.#models.set(model, circuits);
    const [oldest] = this.#models.keys();
    if (this.#models.size > modelLimit && oldest !== undefined) this.#models.delete(oldest);
    let modelCircuit = circuits.get(outcome);
    if (modelCircuit === undefined) {
      modelCircuit = { circuit: new Circuit(modelOptions, this.#now), fingerprints: new Set() };
      circuits.set(outcome, modelCircuit);
    }
    return modelCircuit;
  }

  /** After a success only open circuits keep counting. */
  #forget(model: string): void {
    const circuits = this.#models.get(model);
    if (circuits === undefined) return;
    for (const [outcome, { circuit }] of circuits) if (circuit.state === "closed") circuits.delete(outcome);
    if (circuits.size === 0) this.#models.delete(model);
  }
}
