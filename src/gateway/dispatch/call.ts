import type { ServerResponse } from "node:http";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { DenseMember } from "../../lib/dense-set.ts";
import { noCharge, type Charge } from "../slots/charge.ts";
import type { BackendCallOwner, EnginePart } from "./backend-call-options.ts";
import type { GatewayMetrics, RouteMetrics } from "../telemetry/metrics.ts";
import { noSlot } from "../telemetry/slot-metrics.ts";
import type { RequestTrace } from "../telemetry/trace-context.ts";
import { RequestRecord } from "../telemetry/request-record.ts";
import type { Answer } from "../relay/answer.ts";
import { StreamHold, type HoldTimes, type HeldClient } from "./stream-hold.ts";
import type { V1Request, V1Route } from "../v1/route.ts";

/** The client of a request, for queues and shared streams. */
export interface Principal {
  /** Requests of one client wait for each other. */
  readonly client: string;
  /** Streams are shared only among clients with the same rights. */
  readonly scope: string;
  /** The owner of stored answers. Without authentication all clients are one. */
  readonly owner: string;
}

export const anonymous: Principal = { client: "", scope: "", owner: "" };

/** The work for a client, which can be abandoned. */
interface Work {
  abandon(): void;
}

/** One client's request, from its header to the end of its answer. */
export class Call implements BackendCallOwner, DenseMember {
  readonly route: V1Route;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly answer: Answer;
  readonly #began = performance.now();
  readonly #gatewayMetrics: GatewayMetrics;
  readonly #holdTimes: HoldTimes;
  denseIndex = -1;
  #hold: StreamHold | undefined;
  /** The client reads events, and can get comments about its wait. */
  isStream = false;
  principal: Principal = anonymous;
  #charge: Charge;
  #slot = noSlot;
  #metrics: RouteMetrics | undefined;
  readonly record = new RequestRecord();
  /** Undefined: its client has none, and traces are off. */
  trace: RequestTrace | undefined;
  /** The request to notify at the end, if it needs that: otherwise the request can be collected once it is sent. */
  leftover: V1Request | undefined;
  /**
   * Ends the work for this client alone. An object, created at once: everything that a function in a field refers to
   * outlives V8's young collections (docs/performance.md), here every request with its body.
   */
  work: Work | undefined;

  constructor(
    route: V1Route,
    own: { response: ServerResponse; requestId: string; answer: Answer; charge: Charge },
    { metrics, holdTimes }: { readonly metrics: GatewayMetrics; readonly holdTimes: HoldTimes },
  ) {
    this.route = route;
    this.response = own.response;
    this.requestId = own.requestId;
    this.answer = own.answer;
    this.#charge = own.charge;
    this.#gatewayMetrics = metrics;
    this.#holdTimes = holdTimes;
  }

  /** The slot that answers, or `upstream NAME`. */
  get slot(): string {
    return this.#slot;
  }

  set slot(slot: string) {
    this.#slot = slot;
    this.#metrics = undefined;
  }

  get seconds(): number {
    return (performance.now() - this.#began) / 1000;
  }

  get metrics(): RouteMetrics {
    return (this.#metrics ??= this.#gatewayMetrics.of(this.route.path, this.#slot));
  }

  /** Tells the client and the log what of the request the backend does not get. */
  noteLeftOut(types: readonly string[] = []): void {
    if (types.length === 0) return;
    this.record.leftOut = types.join(", ");
    if (!this.response.headersSent) this.response.setHeader("x-berth-left-out", this.record.leftOut);
  }

  /** From now on the client of a stream gets comments about the wait of `waiter`. */
  holdFor(waiter: HeldClient): void {
    if (!this.isStream || !waiter.isWaiting || this.#hold?.waiter === waiter) return;
    this.#hold?.end();
    this.#hold = new StreamHold(this.answer, waiter, this.#holdTimes);
  }

  endHold(): void {
    this.#hold?.end();
  }

  onDelayed(backendCall: HeldClient): void {
    this.holdFor(backendCall);
  }

  onFirstByte(): void {
    this.metrics.firstByte.observe(this.seconds);
  }

  onFirstToken(): void {
    const { seconds } = this;
    this.record.firstTokenMs = seconds * 1000;
    const series = this.metrics.firstToken(this.record.heldMs > 0 ? "cold" : "warm");
    if (this.trace?.isSampled === true) series.observeAs(seconds, "trace_id", this.trace.traceId);
    else series.observeAs(seconds, "request_id", this.requestId);
  }

  onWaited(waitMs: number, holdMs: number): void {
    this.record.heldMs += holdMs;
    this.record.queuedMs += waitMs - holdMs;
    this.record.waitEndedAt = steadyNow();
  }

  onEngineDone(part: EnginePart): void {
    this.record.engine = part;
  }

  /** The charge of the request's body, until the body is sent and released. */
  get charge(): Charge {
    return this.#charge;
  }

  /** From now on the body is kept for other clients too, which may outlive this one. */
  handOver(): Charge {
    const charge = this.#charge;
    this.#charge = noCharge;
    return charge;
  }

  onBodyDone(isUnused: boolean): void {
    this.#charge.end(isUnused);
  }

  onSettled(): void {
    this.#charge.end();
    this.leftover?.discard?.();
  }
}
