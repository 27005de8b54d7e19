import { ApiError } from "../../api/errors.ts";
import type { PublishedStore } from "../../store/store.ts";
import { onAbort } from "../../lib/on-abort.ts";
import type { Upstreams } from "../providers/upstreams.ts";
import { buildIndex, type ResolutionIndex } from "./index.ts";
import { resolveWanted, type Target, type ModelRequest } from "./resolve.ts";

export interface CacheSyncOptions {
  readonly index: () => ResolutionIndex;
  readonly inFlight: (slot: string) => number;
  readonly published: Pick<PublishedStore, "operatorLiveness"> & { operator(): { isSettled: boolean } | undefined };
  /** Milliseconds that a request waits for the first complete publication; 0: not at all. */
  readonly holdMs: number;
}

/** A request that waits until the meaning of its model is known. */
interface Unresolved {
  readonly wanted: ModelRequest;
  readonly resolve: (target: Target) => void;
  readonly reject: (reason: unknown) => void;
}

/**
 * Requests may come before the operator has read everything once, or while the file of a slot is missing: then the
 * gateway cannot know whether a slot is disabled or a model exists, and the requests wait. Ends once every slot that a
 * live operator has published is read.
 */
export class CacheSync {
  readonly #options: CacheSyncOptions;
  readonly #waiting = new Set<Unresolved>();
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

  /** Resolves once the value has a target. Rejects with ApiError, and with the signal's reason. */
  async wait(wanted: ModelRequest, signal: AbortSignal): Promise<Target> {
    const { holdMs } = this.#options;
    if (holdMs === 0) throw notPublished(wanted);
    const { promise, resolve, reject } = Promise.withResolvers<Target>();
    const waiting = { wanted, resolve, reject };
    using stack = new DisposableStack();
    this.#waiting.add(waiting);
    stack.defer(() => this.#waiting.delete(waiting));
    const timer = setTimeout(() => reject(notPublished(wanted)), holdMs);
    stack.defer(() => clearTimeout(timer));
    stack.use(onAbort(signal, reject));
    return await promise;
  }

  /** The published state has changed: requests that waited for it continue. */
  refresh(): void {
    for (const { wanted, resolve, reject } of this.#waiting) {
      try {
        const target = this.resolve(wanted);
        if (target !== undefined) resolve(target);
      } catch (error) {
        reject(error);
      }
    }
  }

  /** Refuses all waiting requests: the gateway is stopping. */
  close(failure: ApiError): void {
    for (const { reject } of this.#waiting) reject(failure);
  }

  #hasEnded(): boolean {
    const { published } = this.#options;
    // Without a live operator nobody would end a wait: what was known last counts.
    if (published.operatorLiveness() === "live") this.#isOver = published.operator()?.isSettled === true;
    return this.#isOver;
  }
}

function notPublished({ model, fixedSlot }: ModelRequest): ApiError {
  return new ApiError("slot.not_ready", {
    message: "no operator has published its slots yet",
    details: { slot: fixedSlot?.slot ?? model.slice(0, 200), state: "offline", reason: "NotPublished" },
    headers: { "retry-after": "2" },
  });
}

/**
 * The index as of the last change. It subscribes before it reads, in one step: a change in between would stay unseen
 * until the next one, which may be hours later.
 */
export class LiveIndex implements Disposable {
  readonly #published: Pick<PublishedStore, "slots" | "registry">;
  readonly #upstreams: Pick<Upstreams, "refs">;
  readonly #stack = new DisposableStack();
  #current: ResolutionIndex;

  constructor(
    published: Pick<PublishedStore, "slots" | "registry" | "watch">,
    upstreams: Pick<Upstreams, "refs" | "update" | "watch">,
  ) {
    this.#published = published;
    this.#upstreams = upstreams;
    this.#stack.use(
      published.watch(({ slots, registry }) => {
        if (registry) upstreams.update(published.registry().upstreams);
        // Not for a heartbeat, which comes every second.
        if (registry || slots.length > 0) this.#current = this.#build();
      }),
    );
    // Lists of models may arrive at any time.
    this.#stack.use(upstreams.watch(() => (this.#current = this.#build())));
    upstreams.update(published.registry().upstreams);
    this.#current = this.#build();
  }

  get current(): ResolutionIndex {
    return this.#current;
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }

  #build(): ResolutionIndex {
    return buildIndex(this.#published, this.#upstreams.refs());
  }
}
