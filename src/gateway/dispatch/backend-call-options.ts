import type { Admission } from "../slots/admission.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { BufferBudget } from "../slots/budget.ts";
import type { PassedTrace } from "../../lib/exchange.ts";
import type { AnswerSink } from "../relay/answer.ts";
import type { ResolutionIndex } from "../routing/index.ts";
import type { SlotRoute } from "../routing/route-request.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { EngineEndpoint } from "../telemetry/request-record.ts";
import type { HeldClient } from "./stream-hold.ts";
import type { Traffic } from "./traffic.ts";

/** The dependencies of every backend call. */
export interface BackendCallDependencies {
  readonly admission: Admission;
  readonly traffic: Traffic;
  readonly budget: BufferBudget;
  readonly metrics: Pick<GatewayMetrics, "waited" | "ofSlot">;
  readonly againAfterMs: readonly number[];
  readonly index: () => ResolutionIndex;
}

/** One request to one engine, on behalf of one client or of several that share the answer. */
export interface BackendCallOptions {
  readonly waitQueue: WaitQueue;
  readonly route: SlotRoute;
  readonly client: string;
  readonly requestId: string;
  /** The trace that the engine's work belongs to. */
  readonly trace: PassedTrace | undefined;
  readonly sink: AnswerSink;
  readonly owner: BackendCallOwner;
}

/** The client or clients of a call. */
export interface BackendCallOwner {
  /** The members that wait for the backend call; absent: the call itself waits. */
  readonly group?: CallGroup;
  onFirstByte(): void;
  /** A stream's first token has arrived. */
  onFirstToken(): void;
  /** The engine has the request; `isUnused`: nothing refers to its body any more. */
  onBodyDone(isUnused: boolean): void;
  /** The engine was not reached: the call waits, although it may have been admitted at once. */
  onDelayed(backendCall: HeldClient): void;
  /** A wait for the slot is over, `holdMs` of it because the slot was not loaded. Not called for a group. */
  onWaited(waitMs: number, holdMs: number): void;
  /** An engine has done its part. */
  onEngineDone(part: EnginePart): void;
  /** Called once, at any end. */
  onSettled(): void;
}

/** The engine's part of a request, for the access log and metrics. */
export interface EnginePart {
  /** By the steady clock. */
  readonly startedAt: number;
  /** From sending the request to the end of the answer. */
  readonly ms: number;
  /** The model as the engine calls it. */
  readonly model: string;
  readonly endpoint?: EngineEndpoint | undefined;
  readonly tokensIn: number | undefined;
  readonly tokensOut: number | undefined;
}

/** Several clients that share one backend call. */
export interface CallGroup {
  /** All enter the queue: a lease when one is admitted at once. Throws ApiError when none of them may stay. */
  enter(): BackendLease | undefined;
  leaveQueue(): void;
}
