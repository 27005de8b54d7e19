import type { ApiError } from "../../api/errors.ts";
import { onAbort } from "../../lib/on-abort.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { WaitReport } from "../slots/wait-report.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import type { Refusal, SlotQueue } from "../slots/slot-queue.ts";
import type { Waiter } from "../slots/wait-queue.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { ServedClient, Turn } from "./recipient.ts";

/** The queue of a slot or of a provider. An admitted request takes a lease. */
interface LeaseQueue<Lease> {
  /** The slot, or `upstream NAME`. */
  readonly name: string;
  readonly queue: SlotQueue;
  acquire(request: Waiter): Lease;
  failure(refusal: Refusal): ApiError;
}

interface QueuedCallOptions {
  readonly metrics: Pick<GatewayMetrics, "waited">;
  readonly prompt?: Prompt | undefined;
  /** Members of one group share one position: the first turn counts for all. Absent: alone. */
  readonly group?: object;
}

/** One client's request in the queue of a slot or of a provider. Disposing it leaves the queue. */
export class QueuedCall<Lease> implements Waiter, Turn<Lease> {
  readonly from: ServedClient;
  readonly prompt: Prompt | undefined;
  readonly group?: object;
  readonly #at: LeaseQueue<Lease>;
  readonly #metrics: QueuedCallOptions["metrics"];
  #turn: PromiseWithResolvers<Lease> | undefined;
  #since: number | undefined;
  #reporting: Disposable | undefined;

  constructor(from: ServedClient, at: LeaseQueue<Lease>, { metrics, prompt, group }: QueuedCallOptions) {
    this.from = from;
    this.#at = at;
    this.#metrics = metrics;
    this.prompt = prompt;
    if (group !== undefined) this.group = group;
  }

  get lease(): Promise<Lease> {
    return this.#resolvers.promise;
  }

  /** Begins the wait: the client of a stream gets comments until the disposal. */
  wait(report: () => WaitReport): this {
    this.#since = steadyNow();
    this.#reporting = this.from.reportWait(report);
    return this;
  }

  onAdmitted(): void {
    this.#resolvers.resolve(this.#at.acquire(this));
  }

  onRefused(refusal: Refusal): void {
    this.refuse(this.#at.failure(refusal));
  }

  /** Leaves at once: no lease can come any more. */
  refuse(reason: unknown): void {
    this.#at.queue.leave(this);
    this.#resolvers.reject(reason);
  }

  [Symbol.dispose](): void {
    if (this.#since === undefined) return;
    this.#at.queue.leave(this);
    this.#reporting?.[Symbol.dispose]();
    const now = steadyNow();
    const waitMs = now - this.#since;
    const holdMs = this.#at.queue.heldMs(waitMs, now);
    this.#metrics.waited(this.#at.name, { waitMs, holdMs });
    this.from.noteWait(waitMs, holdMs);
    this.#since = undefined;
  }

  /** Most requests get a lease at once, and need no promise. */
  get #resolvers(): PromiseWithResolvers<Lease> {
    return (this.#turn ??= Promise.withResolvers());
  }
}

/** Waits for the lease; in any case the request has left the queue then. Rejects as `turn.lease` and with the signal's reason. */
export async function leaseOf<Lease>(turn: Turn<Lease>, signal: AbortSignal): Promise<Lease> {
  using _ = turn;
  using __ = onAbort(signal, (reason) => turn.refuse(reason));
  return await turn.lease;
}
