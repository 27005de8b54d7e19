import type { PassedTrace } from "../../lib/exchange.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { AnswerSink } from "../relay/answer.ts";
import type { SlotRoute } from "../routing/route-request.ts";
import type { Call } from "./call.ts";

/** A wait for a place at an engine; disposing it leaves the queue. */
export interface Turn extends Disposable {
  /** Rejects with ApiError where the request is refused, and with the reason of `refuse`. */
  readonly lease: Promise<BackendLease>;
  /** Does nothing where the lease is there. */
  refuse(reason: unknown): void;
}

/** Whom an answer is for: one client, or all that share a stream. */
export interface Recipient {
  readonly sink: AnswerSink;
  readonly calls: Iterable<Call>;
  /** Aborted when nobody needs the answer any more, or the gateway stops. */
  readonly signal: AbortSignal;
  readonly requestId: string;
  readonly trace: PassedTrace | undefined;
  /** A lease where a place is free. Throws ApiError where the request is refused. */
  enter(route: SlotRoute, waitQueue: WaitQueue): BackendLease | Turn;
  /** The engine has the request; `isUnused`: nothing refers to its body any more. */
  bodyDone(isUnused: boolean): void;
}
