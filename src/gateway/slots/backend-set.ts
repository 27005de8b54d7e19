import type { EnginePool } from "../../engine-client/client.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { Endpoint } from "./availability.ts";
import { Backend, UnqueuedLease, fewestInFlight, isFailing, isInUse, backendKey, ownOf } from "./backend.ts";
import { PrefixAffinity, prefixHashes, type Prompt } from "./prefix-affinity.ts";

/** A conversation stays with its backend until that one has this many times the mean of requests in flight. */
const affinityBound = 1.25;

export interface BackendSetOptions {
  /** The connections to one engine, created when its endpoint is first published. */
  readonly open: (endpoint: Endpoint) => EnginePool;
  /** A place of a ready backend is free. */
  readonly onFree: () => void;
  /** A backend that accepts no new requests any more has ended its last one. */
  readonly onDrained: () => void;
  /** Milliseconds of a monotonic clock; replaced in tests. */
  readonly now?: () => number;
}

/** A request for a place. */
export interface BackendUser {
  /** Read only with several backends. Absent: nothing that a backend could have in its cache. */
  readonly prompt?: Prompt | undefined;
}

/** A place at one backend. Its holder releases it after any end of the request. */
export class BackendLease {
  readonly #set: BackendSet;
  #backend: Backend;
  /** Backends that could not serve this request: each is tried once. */
  #tried: Set<Backend> | undefined;
  #isReleased = false;

  constructor(set: BackendSet, backend: Backend) {
    this.#set = set;
    this.#backend = backend;
  }

  get backend(): Backend {
    return this.#backend;
  }

  /** Frees exactly this place, at the first call. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#set.release(this.#backend);
  }

  /** The backend could not be reached, or broke the connection: new requests avoid it for a while. */
  fail(): void {
    this.#set.fail(this.#backend);
  }

  /** Exchanges the place for one at a backend without known failures, once each. False: none has room. */
  move(): boolean {
    if (this.#isReleased) return false;
    this.#tried = (this.#tried ?? new Set()).add(this.#backend);
    const other = this.#set.move(this.#backend, this.#tried);
    if (other === undefined) return false;
    this.#backend = other;
    return true;
  }
}

/**
 * The engine processes that serve one role of one slot: its replicas. A new request goes to the backend with the fewest
 * requests in flight; a conversation goes back to the backend that has it cached, unless that one is busy beyond the
 * bound. A backend that is not published as ready any more accepts nothing new and keeps its connections until its last
 * request has ended.
 */
export class BackendSet {
  readonly #options: BackendSetOptions;
  readonly #now: () => number;
  /** Backends that are published as ready. */
  #ready: readonly Backend[] = [];
  /** Backends that are not ready any more, and still have requests. */
  readonly #draining = new Set<Backend>();
  readonly #affinity = new PrefixAffinity<Backend>();
  /** Requests at once, of each backend. */
  #max = 1;
  #choices = 0;

  constructor(options: BackendSetOptions) {
    this.#options = options;
    this.#now = options.now ?? steadyNow;
  }

  /** Backends that accept new requests. */
  get size(): number {
    return this.#ready.length;
  }

  /** Requests that count against `max` times `size`. */
  get inFlight(): number {
    let count = 0;
    for (const backend of this.#ready) count += backend.inFlight;
    return count;
  }

  /** Every backend that is ready or has requests. */
  *all(): Generator<Backend, void, undefined> {
    yield* this.#ready;
    yield* this.#draining;
  }

  /** Applies the published state: the ready endpoints, and the limit of each. */
  update(endpoints: readonly Endpoint[], max: number): void {
    this.#max = max;
    const known = new Map<string, Backend>();
    for (const backend of this.all()) known.set(backend.key, backend);
    this.#ready = endpoints.map((endpoint) => {
      const key = backendKey(endpoint);
      const backend = known.get(key) ?? new Backend(key, endpoint, this.#options.open(endpoint));
      known.delete(key);
      this.#draining.delete(backend);
      backend.endpoint = endpoint;
      backend.isReady = true;
      return backend;
    });
    for (const backend of known.values()) this.#drain(backend);
  }

  /** A status is newer than the failures that were seen here. */
  forgetFailures(): void {
    for (const backend of this.#ready) backend.failedAt = -Infinity;
  }

  /** A place for a request that the queue has admitted. Throws without a ready backend: the queue then admits none. */
  acquire(request: BackendUser): BackendLease {
    const [first] = this.#ready;
    if (first === undefined) throw new Error("a request was let in where no backend is ready");
    const backend = this.#ready.length === 1 ? first : this.#choose(request.prompt);
    this.#occupy(backend);
    return new BackendLease(this, backend);
  }

  /**
   * A backend for a request beside the queue, such as one for an engine's own page. The end of the request is waited for
   * like that of others. One client comes to one backend as long as that is ready, because pages have sessions.
   * Undefined: no backend is ready.
   */
  acquireUnqueued(client: string): UnqueuedLease | undefined {
    const now = this.#now();
    const sound = this.#ready.filter((backend) => !isFailing(backend, now));
    const backend = ownOf(client, sound.length > 0 ? sound : this.#ready);
    if (backend === undefined) return undefined;
    backend.unqueued += 1;
    return new UnqueuedLease(backend, () => {
      backend.unqueued -= 1;
      this.#endIfDrained(backend);
    });
  }

  /** For leases. */
  release(backend: Backend): void {
    backend.inFlight -= 1;
    if (backend.isReady) this.#options.onFree();
    else this.#endIfDrained(backend);
  }

  /** For leases. */
  fail(backend: Backend): void {
    backend.failedAt = this.#now();
  }

  /** For leases: a place at a backend that is not among `tried`, in exchange for one here. */
  move(from: Backend, tried: ReadonlySet<Backend>): Backend | undefined {
    const now = this.#now();
    const others = this.#ready.filter((each) => !tried.has(each) && this.#hasRoom(each) && !isFailing(each, now));
    const to = fewestInFlight(others);
    // A place that is freed at a backend which is not ready makes no room, so none may be taken for it.
    if (to === undefined || !from.isReady) return undefined;
    this.#occupy(to);
    this.#note(to);
    from.inFlight -= 1;
    return to;
  }

  #choose(prompt: Prompt | undefined): Backend {
    const now = this.#now();
    const free = this.#ready.filter((backend) => this.#hasRoom(backend));
    const sound = free.filter((backend) => !isFailing(backend, now));
    // If all backends fail, or the others are full, a request finds out whether a failing one works again.
    const candidates = sound.length > 0 ? sound : free.length > 0 ? free : this.#ready;
    const hashes = prompt === undefined ? [] : prefixHashes(prompt);
    const cached = this.#affinity.find(hashes);
    const isUsable = cached !== undefined && candidates.includes(cached) && !this.#isBusy(cached);
    const backend = isUsable ? cached : (fewestInFlight(candidates) ?? candidates[0]);
    if (backend === undefined) throw new Error("a request was let in where no backend is ready");
    this.#affinity.note(hashes, backend);
    this.#note(backend);
    return backend;
  }

  /** The idle time of an engine begins with its first request, not with the last byte of an earlier time. */
  #occupy(backend: Backend): void {
    backend.inFlight += 1;
    if (backend.inFlight === 1) backend.lastByteAt = this.#now();
  }

  #note(backend: Backend): void {
    this.#choices += 1;
    backend.chosen = this.#choices;
  }

  #hasRoom(backend: Backend): boolean {
    return backend.inFlight < this.#max;
  }

  #isBusy(backend: Backend): boolean {
    const mean = this.inFlight / this.#ready.length;
    return backend.inFlight > Math.max(1, mean * affinityBound);
  }

  #drain(backend: Backend): void {
    backend.isReady = false;
    if (isInUse(backend)) this.#draining.add(backend);
    else this.#retire(backend);
  }

  #endIfDrained(backend: Backend): void {
    if (isInUse(backend) || !this.#draining.delete(backend)) return;
    this.#retire(backend);
    this.#options.onDrained();
  }

  #retire(backend: Backend): void {
    this.#affinity.forget(backend);
    backend.pool.close();
  }
}
