import type { ApiError } from "../../api/errors.ts";
import type { Exchange, ExchangeEvents, ResponseHead } from "../../lib/exchange.ts";
import type { AnswerTokens } from "../slots/backend.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import type { QueuedClient } from "../slots/slot-queue.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { WaitReport } from "../slots/wait-report.ts";
import type { EngineFigures, RequestRecord } from "../telemetry/request-record.ts";
import type { RequestTrace } from "../telemetry/trace-context.ts";
import type { BackendRequest, V1Request } from "../v1/route.ts";

/** A wait for a lease of an engine or a provider; disposing it leaves the queue. */
export interface Turn<Lease> extends Disposable {
  /** Rejects with ApiError where the request is refused, and with the reason of `refuse`. */
  readonly lease: Promise<Lease>;
  /** Ends the wait; no effect once there is a lease. */
  refuse(reason: unknown): void;
}

/** The dispatch of a request to an engine of a slot, or to a provider. Disposing it gives the lease back. */
export interface Dispatch extends Disposable {
  /** The request as it is sent. */
  readonly prepared: {
    readonly request: Pick<V1Request, "model" | "isStream" | "drop">;
    readonly backendRequest: Pick<BackendRequest, "format" | "served" | "drop">;
  };
  /** The slot, or `upstream NAME`. */
  readonly name: string;
  /** The last attempt so far; undefined: the request has no lease of a slot's engine, or no attempt at a provider was made. */
  readonly attempt: Pick<EngineFigures, "startedAt" | "ms" | "endpoint"> | undefined;
  /**
   * Takes a lease, and waits where none is free; undefined: the lease came at once. Throws, or rejects with, ApiError where the
   * request is refused, and the reason of the recipient's signal.
   */
  enter(): Promise<void> | undefined;
  /** Begins an attempt. Throws ApiError where none is to be made now. */
  send(events: ExchangeEvents): Exchange;
  /** A byte of the answer has arrived. */
  heard(): void;
  /** The answer is a success. Throws ApiError where it cannot be relayed. */
  succeeded(head: ResponseHead): void;
  /** The client's error for an answer without success. */
  refusal(head: ResponseHead, body: Buffer): ApiError;
  /**
   * Called where the attempt has no answer, or its answer breaks off. Returns the error for the reader: at a provider the
   * client's ApiError, at a slot the same error, which `retry` judges.
   */
  failed(error: Error): Error;
  /** The attempt or its answer has ended. Its tokens are undefined where they are unknown. */
  answered(isWhole: boolean, usage: AnswerTokens | undefined, tokensOut: number | undefined): void;
  /** A failure that the backend has reported within a success, cleared of secrets. */
  masked(failure: ApiError): ApiError;
  /** Resolves with true once the failed request may be sent again; false: it is not to be. Rejects as `enter` does. */
  retry(error: unknown): Promise<boolean>;
}

/** One client that waits for an answer, or gets it. */
export interface ServedClient extends QueuedClient {
  readonly record: RequestRecord;
  /** Until the result is disposed, the client gets comments about its wait, so that nobody times out; undefined: no stream. */
  reportWait(report: () => WaitReport): Disposable | undefined;
  /** A wait has ended after so many milliseconds, `holdMs` of them because the slot was not loaded. */
  noteWait(waitMs: number, holdMs: number): void;
  /** Once, for the last attempt. `at`: by `performance.now()`. */
  noteFirstByte(at: number): void;
  /** A stream's first token has arrived. */
  noteFirstToken(): void;
}

/** Whom an answer is for: one client, or all that share a stream. */
export interface Recipient {
  readonly clients: Iterable<ServedClient>;
  /** Aborted when nobody needs the answer any more, or the gateway stops. */
  readonly signal: AbortSignal;
  readonly requestId: string;
  readonly trace: RequestTrace | undefined;
  /** A lease where an engine of the slot has a free place, else the wait for it. Throws ApiError where the request is refused. */
  arrive(waitQueue: WaitQueue, prompt: Prompt | undefined): BackendLease | Turn<BackendLease>;
  /** The engine has the request; `isUnused`: nothing refers to its body any more. */
  bodyDone(isUnused: boolean): void;
}
