import { Circuit, type CircuitState, type Permit } from "./circuit.ts";
import type { Outcome } from "./provider-failure.ts";

/** The provider itself has answered, so it is up. */
function isStatus(outcome: Outcome): boolean {
  return /^\d+$/.test(outcome);
}

/** The permit of one request, to be settled once. */
export interface Leave {
  succeed(): void;
  /** `outcome`: why there is no answer. `print` identifies the body; undefined: unknown. */
  fail(outcome: Outcome, print: () => string | undefined): void;
  /** The client disconnected before the outcome. */
  abandon(): void;
}

/** The request must not be sent now. */
export interface Pause {
  readonly ms: number;
  /** The subject of the failures: the provider, or one of its models in that way. */
  readonly of: "provider" | { readonly outcome: Outcome };
}

/** Outcomes that mean that the provider is down, for any model. Any other may concern one model alone. */
const downOutcomes: ReadonlySet<Outcome> = new Set(["unreachable", "502", "503", "504"]);

const providerOptions = { failures: 5, openMs: 10_000, maxOpenMs: 300_000 };
const modelOptions = { failures: 5, openMs: 10_000, maxOpenMs: 60_000 };
/** The limit of failing models; beyond it the one with the oldest failure is forgotten. */
const modelLimit = 200;

/** The failures of one model of one kind. */
interface Trouble {
  readonly circuit: Circuit;
  /** The bodies that failed since the last success: the same body sent again proves nothing new. */
  readonly prints: Set<string>;
}

/**
 * A circuit for the provider as a whole, and one for each of its models and each kind of failure: a model, or a single
 * prompt, that the provider answers with 500 does not block other models.
 */
export class Circuits {
  readonly #now: () => number;
  #provider: Circuit;
  readonly #models = new Map<string, Map<Outcome, Trouble>>();

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
    for (const troubles of this.#models.values()) {
      if ([...troubles.values()].some(({ circuit }) => circuit.state !== "closed")) count += 1;
    }
    return count;
  }

  /** Resets every failure: outcomes of earlier permits no longer count. */
  reset(): void {
    this.#provider = new Circuit(providerOptions, this.#now);
    this.#models.clear();
  }

  admit(model: string): Leave | Pause {
    const whole = this.#provider.admit();
    if (typeof whole === "number") return { ms: whole, of: "provider" };
    const permits = new Map<Outcome, Permit>();
    for (const [outcome, { circuit }] of this.#models.get(model) ?? []) {
      const permit = circuit.admit();
      if (typeof permit !== "number") {
        permits.set(outcome, permit);
        continue;
      }
      whole.abandon();
      for (const given of permits.values()) given.abandon();
      return { ms: permit, of: { outcome } };
    }
    return this.#leave(model, whole, permits);
  }

  #leave(model: string, whole: Permit, permits: ReadonlyMap<Outcome, Permit>): Leave {
    const abandonAll = (): void => {
      for (const permit of permits.values()) permit.abandon();
    };
    return {
      succeed: () => {
        whole.succeed();
        for (const permit of permits.values()) permit.succeed();
        this.#forget(model);
      },
      fail: (outcome, print) => {
        if (downOutcomes.has(outcome)) whole.fail();
        else {
          if (isStatus(outcome)) whole.succeed();
          else whole.abandon();
          this.#failed(model, outcome, print(), permits.get(outcome));
        }
        abandonAll();
      },
      abandon: () => {
        whole.abandon();
        abandonAll();
      },
    };
  }

  #failed(model: string, outcome: Outcome, print: string | undefined, given: Permit | undefined): void {
    const { circuit, prints } = this.#troubleOf(model, outcome);
    const isTrial = circuit.state !== "closed";
    if (print !== undefined && !isTrial) {
      if (prints.has(print)) return;
      prints.add(print);
    }
    const permit = given ?? circuit.admit();
    if (typeof permit !== "number") permit.fail();
  }

  #troubleOf(model: string, outcome: Outcome): Trouble {
    const troubles = this.#models.get(model) ?? new Map<Outcome, Trouble>();
    this.#models.delete(model);
    this.#models.set(model, troubles);
    const [oldest] = this.#models.keys();
    if (this.#models.size > modelLimit && oldest !== undefined) this.#models.delete(oldest);
    let trouble = troubles.get(outcome);
    if (trouble === undefined) {
      trouble = { circuit: new Circuit(modelOptions, this.#now), prints: new Set() };
      troubles.set(outcome, trouble);
    }
    return trouble;
  }

  /** After a success only open circuits keep counting. */
  #forget(model: string): void {
    const troubles = this.#models.get(model);
    if (troubles === undefined) return;
    for (const [outcome, { circuit }] of troubles) if (circuit.state === "closed") troubles.delete(outcome);
    if (troubles.size === 0) this.#models.delete(model);
  }
}
