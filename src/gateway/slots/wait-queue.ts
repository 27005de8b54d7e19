import { ApiError } from "../../api/errors.ts";
import type { ProcessRole } from "../../api/names.ts";
import type { KnownSlot } from "../routing/index.ts";
import type { Availability, Endpoint } from "./availability.ts";
import { BackendSet, type BackendLease, type BackendSetOptions, type BackendUser } from "./backend-set.ts";
import { SlotQueue, type GateState, type QueuedRequest, type QueueLimits, type Refusal } from "./slot-queue.ts";

/** A request in the queue of a slot. It takes its lease where it is admitted. */
export type Waiter = QueuedRequest & BackendUser;

/** The limits of a queue without a slot. */
export const closedLimits: QueueLimits = { max: 1, queue: 0, holdMs: 0, queueMs: 0 };

/** The requests for one role of one slot, or for one of its models, and the engine processes that serve it. */
export class WaitQueue {
  readonly slot: string;
  readonly role: ProcessRole;
  /** The model that must answer; undefined: whatever the slot holds. */
  readonly ref: string | undefined;
  readonly queue = new SlotQueue(closedLimits);
  readonly backends: BackendSet;
  /** Mean milliseconds of one request; 0 unknown. */
  meanMs = 0;
  /** Requests may not choose its model any more: it stays closed, and a new queue follows if they may again. */
  isForgotten = false;
  #availability: Availability | undefined;
  #max = 1;
  #known: KnownSlot | undefined;

  constructor(of: Pick<WaitQueue, "slot" | "role" | "ref">, options: Omit<BackendSetOptions, "onFree">) {
    this.slot = of.slot;
    this.role = of.role;
    this.ref = of.ref;
    this.backends = new BackendSet({ ...options, onFree: () => this.queue.finish() });
  }

  get name(): string {
    return this.slot;
  }

  /** The state to report to waiting clients; undefined: the slot's own. */
  get reportedState(): "offline" | undefined {
    return this.#availability?.kind === "shut" ? this.#availability.state : undefined;
  }

  /** For a request that the queue has admitted. */
  acquire(request: BackendUser): BackendLease {
    return this.backends.acquire(request);
  }

  /** The published state in use. A newer status replaces failures that were seen here. */
  published(known: KnownSlot | undefined): void {
    if (known === this.#known) return;
    this.#known = known;
    this.backends.forgetFailures();
  }

  /** `limits.max` is that of one backend; the queue admits the sum of all backends. */
  change(availability: Availability, limits: QueueLimits, now: number): void {
    this.#availability = availability;
    this.backends.update(availability.kind === "open" ? availability.endpoints : noEndpoints, limits.max);
    this.#max = limits.max * Math.max(1, this.backends.size);
    this.queue.change(gateOf(availability, now), { ...limits, max: this.#max }, now, this.backends.inFlight);
  }

  failure(refusal: Refusal): ApiError {
    const availability = this.#availability;
    if (refusal !== "full" && availability !== undefined && availability.kind !== "open") return availability.failure;
    const seconds = Math.ceil(((this.queue.waiting + 1) * (this.meanMs || 1000)) / 1000 / Math.min(this.#max, 1000));
    return new ApiError("slot.overloaded", {
      message: `slot ${this.slot} is busy: ${this.queue.inside} requests under way, ${this.queue.waiting} waiting`,
      details: { slot: this.slot, in_flight: this.queue.inside, queued: this.queue.waiting },
      headers: { "retry-after": String(Math.min(600, Math.max(1, seconds))) },
    });
  }
}

const noEndpoints: readonly Endpoint[] = [];

function gateOf(availability: Availability, now: number): GateState {
  if (availability.kind !== "shut") return { kind: availability.kind };
  const { reopensInMs, since } = availability;
  return { kind: "shut", reopensAt: reopensInMs === undefined ? undefined : now + reopensInMs, since };
}

/** The limits of one backend: an engine's parallel requests are the same for each replica. */
export function limitsOf({ spec }: KnownSlot, holdMs: number): QueueLimits {
  const max = spec.concurrency.max ?? parallelOf(spec);
  return {
    max: max === 0 ? Infinity : max,
    queue: spec.concurrency.queue,
    holdMs,
    queueMs: spec.timeoutSeconds.firstByte === 0 ? Infinity : spec.timeoutSeconds.firstByte * 1000,
  };
}

/** The engine's parallel requests (DECISIONS 13); 0 any number. */
function parallelOf({ engine, model }: KnownSlot["spec"]): number {
  switch (engine) {
    case "llama":
    case "npu":
      return model.parallel;
    case "stt":
    case "tts":
    case "image":
      return 1;
    case "custom":
      return 0;
    default:
      return engine satisfies never;
  }
}
