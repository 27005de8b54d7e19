import type { PassedTrace } from "../../lib/exchange.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { WaitPlace } from "../slots/admission.ts";
import type { RequestRecord } from "../telemetry/request-record.ts";
import type { AnswerSink } from "../relay/answer.ts";
import type { SlotRoute } from "../routing/route-request.ts";

/** A wait for a place at an engine; disposing it leaves the queue. */
export interface Turn extends Disposable {
  /** Rejects with ApiError where the request is refused, and with the reason of `refuse`. */
  readonly lease: Promise<BackendLease>;
  /** Does nothing where the lease is there. */
  refuse(reason: unknown): void;
}

/** One client that waits for an answer, or gets it. */
export interface ServedClient {
  readonly record: RequestRecord;
  /** Requests of one client wait for each other. */
  readonly client: string;
  /** The client has received the beginning of its answer. */
  readonly hasBegun: boolean;
  /** Until it is disposed, the client of a stream gets comments about its place, so that nobody times out. */
  hold(place: () => WaitPlace | undefined): Disposable | undefined;
  /** A wait has ended after so many milliseconds, `holdMs` of them because the slot was not loaded. */
  noteWait(waitMs: number, holdMs: number): void;
  noteFirstByte(): void;
  /** A stream's first token has arrived. */
  noteFirstToken(): void;
}

/** Whom an answer is for: one client, or all that share a stream. */
export interface Recipient {
  readonly sink: AnswerSink;
  readonly clients: Iterable<ServedClient>;
  /** Aborted when nobody needs the answer any more, or the gateway stops. */
  readonly signal: AbortSignal;
  readonly requestId: string;
  readonly trace: PassedTrace | undefined;
  /** A lease where a place is free. Throws ApiError where the request is refused. */
  enter(route: SlotRoute, waitQueue: WaitQueue): BackendLease | Turn;
  /** The engine has the request; `isUnused`: nothing refers to its body any more. */
  bodyDone(isUnused: boolean): void;
}
