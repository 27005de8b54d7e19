import { ApiError } from "../api/errors.ts";
import type { PublishedOperator } from "../api/status.ts";
import type { Place } from "./admission/admission.ts";
import { isOperatorLost } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import type { ResolutionIndex } from "./index.ts";
import { resolveWanted, type Target, type Wanted } from "./resolve.ts";

export interface FirstLookOptions {
  readonly index: () => ResolutionIndex;
  readonly inFlight: (slot: string) => number;
  readonly operator: () => PublishedOperator | undefined;
  readonly bootId: string;
  readonly budget: BufferBudget;
  /** Milliseconds that a request waits to hear whether there is such a slot; 0: not at all. */
  readonly holdMs: number;
}

/** Gives what the value means, or throws ApiError. */
type Outcome = () => Target;

/** A request that waits until it is known what its model means. */
export interface Newcomer {
  readonly isWaiting: boolean;
  readonly place: Place;
  abandon(): void;
}

/**
 * Requests may come before the operator has looked at everything once: then nobody can say yet that a slot is disabled
 * or that there is no such model, and they wait. Over for good once an operator of this boot has told of all slots.
 */
export class FirstLook {
  readonly #options: FirstLookOptions;
  readonly #waiting = new Set<Waiting>();
  #isOver = false;

  constructor(options: FirstLookOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** As `resolve`; undefined when what the value means may yet be published. */
  resolve(wanted: Wanted): Target | undefined {
    const { index, inFlight } = this.#options;
    try {
      const target = resolveWanted(index(), wanted, inFlight);
      const isKnown = target.kind === "upstream" || target.slot.published !== undefined;
      return isKnown || this.#hasEnded() ? target : undefined;
    } catch (error) {
      if (this.#hasEnded()) throw error;
      return undefined;
    }
  }

  /** Calls `then` once, unless abandoned. `bytes` are what the request keeps meanwhile. Throws ApiError. */
  wait(wanted: Wanted, bytes: number, then: (outcome: Outcome) => void): Newcomer {
    const { holdMs, budget } = this.#options;
    if (holdMs === 0) throw notPublished(wanted);
    budget.take(bytes);
    const waiting = new Waiting(
      (outcome) => {
        if (!this.#waiting.delete(waiting)) return;
        budget.give(bytes);
        if (outcome !== undefined) then(outcome);
      },
      wanted,
      holdMs,
    );
    this.#waiting.add(waiting);
    return waiting;
  }

  /** Something was published: those who waited for it go on. */
  refresh(): void {
    for (const waiting of this.#waiting) {
      let outcome: Outcome | undefined;
      try {
        const target = this.resolve(waiting.wanted);
        if (target !== undefined) outcome = () => target;
      } catch (error) {
        outcome = () => {
          throw error;
        };
      }
      if (outcome !== undefined) waiting.end(outcome);
    }
  }

  /** Sends everybody away: the gateway is stopping. */
  close(failure: ApiError): void {
    for (const waiting of this.#waiting) {
      waiting.end(() => {
        throw failure;
      });
    }
  }

  #hasEnded(): boolean {
    if (this.#isOver) return true;
    const { operator, bootId } = this.#options;
    const heard = operator();
    this.#isOver = heard?.bootId === bootId && heard.isSettled && !isOperatorLost(heard);
    return this.#isOver;
  }
}

class Waiting implements Newcomer {
  readonly wanted: Wanted;
  readonly #onEnd: (outcome: Outcome | undefined) => void;
  readonly #timer: NodeJS.Timeout;
  isWaiting = true;
  /** The name may be anything that a client sends: it is not repeated. */
  readonly place: Place = { at: "slot", name: "unknown", state: "offline", position: 0, progress: undefined };

  constructor(onEnd: (outcome: Outcome | undefined) => void, wanted: Wanted, holdMs: number) {
    this.#onEnd = onEnd;
    this.wanted = wanted;
    this.#timer = setTimeout(() => {
      this.end(() => {
        throw notPublished(wanted);
      });
    }, holdMs);
  }

  abandon(): void {
    this.end(undefined);
  }

  end(outcome: Outcome | undefined): void {
    if (!this.isWaiting) return;
    this.isWaiting = false;
    clearTimeout(this.#timer);
    this.#onEnd(outcome);
  }
}

function notPublished({ model, pinned }: Wanted): ApiError {
  return new ApiError("slot.not_ready", {
    message: "no operator has told yet which slots there are",
    details: { slot: pinned?.slot ?? model.slice(0, 200), state: "offline", reason: "NotPublished" },
    headers: { "retry-after": "2" },
  });
}
