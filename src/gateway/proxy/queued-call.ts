import { steadyNow } from "../../lib/steady-clock.ts";
import type { Admission } from "../slots/admission.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import type { Refusal } from "../slots/slot-queue.ts";
import type { Waiter, WaitQueue } from "../slots/wait-queue.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { ServedClient, Turn } from "./recipient.ts";

interface QueuedCallOptions {
  readonly admission: Admission;
  readonly metrics: Pick<GatewayMetrics, "waited">;
  readonly prompt: Prompt | undefined;
  /** Members of one group share one place: the first turn counts for all. Absent: alone. */
  readonly group?: object;
}

/** One client's request in the queue of its slot. Disposing it leaves the queue. */
export class QueuedCall implements Waiter, Turn {
  readonly #of: ServedClient;
  readonly prompt: Prompt | undefined;
  readonly group?: object;
  readonly #waitQueue: WaitQueue;
  readonly #options: QueuedCallOptions;
  #turn: PromiseWithResolvers<BackendLease> | undefined;
  #since: number | undefined;
  #hold: Disposable | undefined;

  constructor(of: ServedClient, waitQueue: WaitQueue, options: QueuedCallOptions) {
    this.#of = of;
    this.prompt = options.prompt;
    if (options.group !== undefined) this.group = options.group;
    this.#waitQueue = waitQueue;
    this.#options = options;
  }

  get client(): string {
    return this.#of.client;
  }

  get hasBegun(): boolean {
    return this.#of.hasBegun;
  }

  get waitsSince(): number | undefined {
    return this.#of.waitsSince;
  }

  set waitsSince(since: number | undefined) {
    this.#of.waitsSince = since;
  }

  get lease(): Promise<BackendLease> {
    return this.#resolvers.promise;
  }

  /** Returns a lease where a place is free by the last known state of the slot; undefined: the request waits. Throws ApiError where it is refused. */
  arrive(): BackendLease | undefined {
    const { admission } = this.#options;
    const lease = admission.arrive(this.#waitQueue, this);
    if (lease !== undefined) return lease;
    this.#since = steadyNow();
    this.#hold = this.#of.hold(() => admission.place(this.#waitQueue, this));
    return undefined;
  }

  onAdmitted(): void {
    this.#resolvers.resolve(this.#waitQueue.backends.acquire(this));
  }

  onRefused(refusal: Refusal): void {
    this.refuse(this.#waitQueue.failure(refusal));
  }

  /** Leaves at once: no lease can come any more. */
  refuse(reason: unknown): void {
    this.#waitQueue.queue.leave(this);
    this.#resolvers.reject(reason);
  }

  [Symbol.dispose](): void {
    if (this.#since === undefined) return;
    this.#waitQueue.queue.leave(this);
    this.#hold?.[Symbol.dispose]();
    const now = steadyNow();
    const waitMs = now - this.#since;
    const holdMs = this.#waitQueue.queue.heldMs(waitMs, now);
    this.#options.metrics.waited(this.#waitQueue.slot, { waitMs, holdMs });
    this.#of.noteWait(waitMs, holdMs);
    this.#since = undefined;
  }

  /** Most requests get a place at once and need none. */
  get #resolvers(): PromiseWithResolvers<BackendLease> {
    return (this.#turn ??= Promise.withResolvers());
  }
}
