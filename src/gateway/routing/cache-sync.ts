import { ApiError } from "../../api/errors.ts";
import type { PublishedStore } from "../../store/store.ts";
import type { WaitPlace } from "../slots/admission.ts";
import type { BufferBudget } from "../slots/budget.ts";
import type { ResolutionIndex } from "./index.ts";
import { resolveWanted, type Target, type ModelRequest } from "./resolve.ts";

export interface CacheSyncOptions {
  readonly index: () => ResolutionIndex;
  readonly inFlight: (slot: string) => number;
  readonly published: Pick<PublishedStore, "operatorLiveness"> & { operator(): { isSettled: boolean } | undefined };
  readonly budget: BufferBudget;
  /** Milliseconds that a request waits for the first complete publication; 0: not at all. */
  readonly holdMs: number;
}

/** Returns the target of the value, or throws ApiError. */
type Outcome = () => Target;

/** A request that waits until the meaning of its model is known. */
export interface UnresolvedRequest {
  readonly isWaiting: boolean;
  readonly place: WaitPlace;
  abandon(): void;
}

/**
 * Requests may come before the operator has read everything once, or while the file of a slot is missing: then the
 * gateway cannot know whether a slot is disabled or a model exists, and the requests wait. Ends once every slot that a
 * live operator has published is read.
 */
export class CacheSync {
  readonly #options: CacheSyncOptions;
  readonly #waiting = new Set<SyncWaiter>();
  #isOver = false;

  constructor(options: CacheSyncOptions) {
    this.#options = options;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Like `resolve`; undefined when the value may still be published. */
  resolve(wanted: ModelRequest): Target | undefined {
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

  /** Calls `then` once, unless abandoned. `bytes` is the request's memory during the wait. Throws ApiError. */
  wait(wanted: ModelRequest, bytes: number, then: (outcome: Outcome) => void): UnresolvedRequest {
    const { holdMs, budget } = this.#options;
    if (holdMs === 0) throw notPublished(wanted);
    budget.take(bytes);
    const waiting = new SyncWaiter(
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

  /** The published state has changed: requests that waited for it continue. */
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

  /** Refuses all waiting requests: the gateway is stopping. */
  close(failure: ApiError): void {
    for (const waiting of this.#waiting) {
      waiting.end(() => {
        throw failure;
      });
    }
  }

  #hasEnded(): boolean {
    const { published } = this.#options;
    // Without a live operator nobody would end a wait: what was known last counts.
    if (published.operatorLiveness() === "live") this.#isOver = published.operator()?.isSettled === true;
    return this.#isOver;
  }
}

class SyncWaiter implements UnresolvedRequest {
  readonly wanted: ModelRequest;
  readonly #onEnd: (outcome: Outcome | undefined) => void;
  readonly #timer: NodeJS.Timeout;
  isWaiting = true;
  /** The name may be any text of a client: it is not repeated. */
  readonly place: WaitPlace = { at: "slot", name: "unknown", state: "offline", position: 0, progress: undefined };

  constructor(onEnd: (outcome: Outcome | undefined) => void, wanted: ModelRequest, holdMs: number) {
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

function notPublished({ model, fixedSlot }: ModelRequest): ApiError {
  return new ApiError("slot.not_ready", {
    message: "no operator has published its slots yet",
    details: { slot: fixedSlot?.slot ?? model.slice(0, 200), state: "offline", reason: "NotPublished" },
    headers: { "retry-after": "2" },
  });
}
