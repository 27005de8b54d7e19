import { ApiError } from "../../api/errors.ts";
import { processRoles, type ProcessRole } from "../../api/names.ts";
import { EnginePools } from "../../engine-client/client.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { OperatorLiveness } from "../../store/store.ts";
import type { KnownSlot, ResolutionIndex } from "../routing/index.ts";
import { availabilityOf } from "./availability.ts";
import type { Backend, UnqueuedLease } from "./backend.ts";
import type { BackendLease } from "./backend-set.ts";
import { waitReportOf, type WaitReport } from "./wait-report.ts";
import { closedLimits, limitsOf, WaitQueue, type Waiter } from "./wait-queue.ts";

export interface AdmissionOptions {
  readonly index: () => ResolutionIndex;
  readonly operator: () => OperatorLiveness;
  /** The operator has reconciled every slot since its start. */
  readonly isSettled?: () => boolean;
  /** Milliseconds that a request waits for a slot to load; 0: not at all. */
  readonly holdMs: number;
  /** A replica that accepts no new requests any more has ended its last one. */
  readonly onDrained?: (slot: string) => void;
  /** The first request waits for a model of a slot whose model requests choose. */
  readonly onWanted?: (slot: string) => void;
  /** Milliseconds of a monotonic clock; replaced in tests. */
  readonly now?: () => number;
}

/** While requests wait, all queues are checked at this interval, so that no wake-up can be lost for good. */
const recheckMs = 1000;
/** An engine that could not be reached is tried again after this time, if no newer status says more. */
const lostMs = 5000;
/** The weight of the last request in the mean duration. */
const meanWeight = 0.2;

interface Loss {
  /** When it was first not reached. */
  readonly since: number;
  /** The loss counts until then, or until another revision of the slot's status. */
  readonly untilMs: number;
  readonly revision: number | undefined;
}

/**
 * The gate of every engine: one queue and one set of backends for each role of each slot, opened and closed by the
 * published state. Entering the queue of a ready slot costs one lookup in a map.
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #now: () => number;
  readonly #waitQueues = new Map<string, WaitQueue>();
  /** The queues of each slot whose model requests choose, one queue for each model. */
  readonly #byRef = new Map<string, WaitQueue[]>();
  readonly #pools = new EnginePools();
  /** The engines that could not be reached, by slot and by their start. */
  readonly #lost = new Map<string, Map<string, Loss>>();
  #timer: NodeJS.Timeout | undefined;
  /** Why no request is admitted any more. */
  #closed: ApiError | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#now = options.now ?? steadyNow;
  }

  /** The queue of a slot's process, or of one of its models. Cheap after the first call. */
  waitQueueOf(slot: string, role: ProcessRole, ref?: string): WaitQueue {
    const key = queueKey(slot, role, ref);
    let waitQueue = this.#waitQueues.get(key);
    if (waitQueue === undefined) {
      waitQueue = new WaitQueue(
        { slot, role, ref },
        {
          open: (endpoint) => this.#pools.open(endpoint),
          onDrained: () => this.#options.onDrained?.(slot),
          now: this.#now,
        },
      );
      this.#waitQueues.set(key, waitQueue);
      if (ref !== undefined) this.#byRef.set(slot, [...this.queuesByRef(slot), waitQueue]);
      this.#update(waitQueue);
    }
    return waitQueue;
  }

  /** A gate that is not open may change by time alone, such as the time until the next attempt. */
  recheck(waitQueue: WaitQueue): void {
    if (waitQueue.queue.gate !== "open") this.#update(waitQueue);
  }

  /**
   * Returns a lease where the waiter is admitted at once by the last known state; undefined: a callback follows. Throws ApiError
   * where it is refused.
   */
  arrive(waitQueue: WaitQueue, waiter: Waiter): BackendLease | undefined {
    const now = this.#now();
    const outcome = waitQueue.queue.arrive(waiter, now);
    if (outcome === "admitted") return waitQueue.acquire(waiter);
    if (outcome !== "waiting") throw waitQueue.failure(outcome);
    if (waitQueue.ref !== undefined && waitQueue.queue.waiting === 1) this.#options.onWanted?.(waitQueue.slot);
    this.#arm(waitQueue.queue.expire(now));
    return undefined;
  }

  /** A backend of a slot's main process for a request beside the queue (`BackendSet.acquireUnqueued`). */
  acquireUnqueued(slot: string, client: string): UnqueuedLease | undefined {
    const waitQueue = this.waitQueueOf(slot, "main");
    this.recheck(waitQueue);
    return waitQueue.backends.acquireUnqueued(client);
  }

  /** An admitted request has ended: its place goes to the next one. */
  finish(waitQueue: WaitQueue, lease: BackendLease, tookMs: number): void {
    waitQueue.meanMs = waitQueue.meanMs === 0 ? tookMs : waitQueue.meanMs + meanWeight * (tookMs - waitQueue.meanMs);
    lease.release();
  }

  /**
   * Marks an engine that could not be reached as lost: after a boot of its node it has another address, and no operator has
   * published that yet. Requests wait for a newer status then. False: an operator is there and would have reported the end
   * of the engine, or it has ended and no newer status will come.
   */
  markLost({ slot }: WaitQueue, { backend }: BackendLease): boolean {
    const { operator, isSettled = () => true, index } = this.#options;
    const liveness = operator();
    if (liveness !== "unproven" && (liveness !== "live" || isSettled())) return false;
    const known = index().slots.get(slot);
    if (known === undefined) return false;
    const losses = this.#lost.get(slot) ?? new Map<string, Loss>();
    const [now, start] = [this.#now(), backend.endpoint.process];
    const loss = { since: losses.get(start)?.since ?? now, untilMs: now + lostMs, revision: known.published?.revision };
    this.#lost.set(slot, losses.set(start, loss));
    this.refresh(slot);
    return true;
  }

  /** The losses that count now, and since when each engine is lost. */
  #lostOf({ name, published }: KnownSlot): ReadonlyMap<string, number> {
    const lost = new Map<string, number>();
    for (const [start, { since, untilMs, revision }] of this.#lost.get(name) ?? [])
      if (this.#now() < untilMs && revision === published?.revision) lost.set(start, since);
    return lost;
  }

  waitReport(waitQueue: WaitQueue, waiter?: Waiter): WaitReport {
    return waitReportOf(waitQueue, this.#options.index().slots.get(waitQueue.slot)?.status, waiter);
  }

  /** The queues of a slot's models, where requests choose its model. */
  queuesByRef(slot: string): readonly WaitQueue[] {
    return this.#byRef.get(slot) ?? noQueues;
  }

  /** Whether requests wait for a model of that slot. */
  isWanted(slot: string): boolean {
    return this.queuesByRef(slot).some(({ queue }) => queue.waiting > 0);
  }

  /** Applies the present published state, for one slot or all. */
  refresh(slot?: string): void {
    for (const waitQueue of slot === undefined ? this.#waitQueues.values() : this.#queuesOf(slot)) {
      this.#update(waitQueue);
      if (this.#isObsolete(waitQueue)) this.#forget(waitQueue);
    }
  }

  /** The number of waiting requests: for a slot to load, or in the queue. */
  counts(slot: string): { held: number; queued: number } {
    const counts = { held: 0, queued: 0 };
    for (const { queue } of this.#queuesOf(slot)) counts[queue.gate === "open" ? "queued" : "held"] += queue.callers;
    return counts;
  }

  /** The backends of a slot that are ready or have requests, by role. */
  *backends(slot: string): Generator<{ readonly role: ProcessRole; readonly backend: Backend }, void, undefined> {
    for (const { role, backends } of this.#queuesOf(slot))
      for (const backend of backends.all()) yield { role, backend };
  }

  /** Refuses all waiting requests, and later ones; connections close with their requests. */
  close(failure: ApiError): void {
    clearTimeout(this.#timer);
    this.#closed = failure;
    this.refresh();
    this.#pools.close();
  }

  /** The queues of a slot's processes, and of its models. */
  *#queuesOf(slot: string): Generator<WaitQueue, void, undefined> {
    for (const role of processRoles) {
      const waitQueue = this.#waitQueues.get(queueKey(slot, role));
      if (waitQueue !== undefined) yield waitQueue;
    }
    yield* this.queuesByRef(slot);
  }

  /** Whether the queue is that of a model that requests may not choose any more, and has no request. */
  #isObsolete({ slot, ref, queue, backends }: WaitQueue): boolean {
    if (ref === undefined || queue.waiting > 0) return false;
    const choice = this.#options.index().slots.get(slot)?.status?.onRequest;
    return choice?.refs.includes(ref) !== true && [...backends.all()].every(({ inFlight }) => inFlight === 0);
  }

  /** A request that is about to be repeated may still have the queue: it is refused there, because nothing wakes it. */
  #forget(waitQueue: WaitQueue): void {
    const { slot, role, ref } = waitQueue;
    this.#waitQueues.delete(queueKey(slot, role, ref));
    const others = this.queuesByRef(slot).filter((each) => each !== waitQueue);
    if (others.length === 0) this.#byRef.delete(slot);
    else this.#byRef.set(slot, others);
    const failure = new ApiError("slot.not_ready", {
      message: `slot ${slot} is not swapped to ${ref ?? "that model"} by requests any more`,
      details: { slot, state: "offline", reason: "Changed" },
      headers: { "retry-after": "1" },
    });
    waitQueue.change({ kind: "closed", failure }, closedLimits, this.#now());
    waitQueue.isForgotten = true;
  }

  #update(waitQueue: WaitQueue): void {
    if (waitQueue.isForgotten) return;
    const now = this.#now();
    if (this.#closed !== undefined) {
      waitQueue.change({ kind: "closed", failure: this.#closed }, closedLimits, now);
      return;
    }
    const { index, operator, holdMs } = this.#options;
    const known = index().slots.get(waitQueue.slot);
    waitQueue.published(known);
    if (known === undefined) {
      this.#lost.delete(waitQueue.slot);
      const failure = new ApiError("model.not_found", { message: `slot ${waitQueue.slot} is gone` });
      waitQueue.change({ kind: "closed", failure }, closedLimits, now);
      return;
    }
    const lost = this.#lostOf(known);
    const availability = availabilityOf(known, waitQueue.role, {
      operator: operator(),
      now: Date.now(),
      ref: waitQueue.ref,
      ...(lost.size === 0 ? {} : { lost }),
    });
    waitQueue.change(availability, limitsOf(known, holdMs), now);
  }

  /** Also without a deadline: a gate that is open now may be shut, and the waiting requests then have one. */
  #arm(deadline: number): void {
    if (this.#timer !== undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#tick();
      },
      Math.min(recheckMs, Math.max(1, deadline - this.#now())),
    );
  }

  #tick(): void {
    let next = Infinity;
    for (const waitQueue of this.#waitQueues.values()) {
      if (waitQueue.queue.waiting === 0) continue;
      if (waitQueue.queue.gate !== "open") this.#update(waitQueue);
      next = Math.min(next, waitQueue.queue.expire(this.#now()));
      if (waitQueue.queue.waiting > 0) next = Math.min(next, this.#now() + recheckMs);
    }
    if (next !== Infinity) this.#arm(next);
  }
}

function queueKey(slot: string, role: ProcessRole, ref?: string): string {
  const key = role === "main" ? slot : `${slot} ${role}`;
  return ref === undefined ? key : `${key} ref ${ref}`;
}

const noQueues: readonly WaitQueue[] = [];
