import type { ServerResponse } from "node:http";
import type { ApiError } from "../../api/errors.ts";
import type { DenseMember } from "../../lib/dense-set.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { Admission } from "../slots/admission.ts";
import type { WaitReport } from "../slots/wait-report.ts";
import type { BackendLease } from "../slots/backend-set.ts";
import type { Prompt } from "../slots/prefix-affinity.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import { Charge, noCharge, type BufferBudget } from "../slots/budget.ts";
import type { Answer } from "../relay/answer.ts";
import type { GatewayMetrics, RouteMetrics } from "../telemetry/metrics.ts";
import type { RecentRequests } from "../telemetry/recent-requests.ts";
import { RequestRecord, shortName } from "../telemetry/request-record.ts";
import { noSlot } from "../telemetry/slot-metrics.ts";
import type { RequestTrace } from "../telemetry/trace-context.ts";
import type { V1Request, V1Route } from "../v1/route.ts";
import { QueuedCall } from "./queued-call.ts";
import type { Recipient, ServedClient, Turn } from "./recipient.ts";
import { WaitComments, type CommentTimes } from "./wait-comments.ts";

/** The client of a request, for queues and shared streams. */
export interface Principal {
  /** Clients take turns in a queue; the requests of one client follow one another. */
  readonly client: string;
  /** Streams are shared only among clients with the same rights. */
  readonly scope: string;
  /** The owner of stored answers. Without authentication all clients are one. */
  readonly owner: string;
}

export const anonymous: Principal = { client: "", scope: "", owner: "" };

/** The reason to cancel a request: its client has left. */
export const clientGone = new Error("the client has disconnected");

interface CallParts {
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly answer: Answer;
}

interface CallOptions {
  readonly admission: Admission;
  readonly metrics: GatewayMetrics;
  /** Bounds the memory of bodies and answers. */
  readonly budget: BufferBudget;
  readonly commentTimes: CommentTimes;
  readonly recent?: Pick<RecentRequests, "keepBody">;
}

/** One client's request, from its header to the end of its answer. */
export class Call implements DenseMember, Recipient, ServedClient {
  denseIndex = -1;
  readonly route: V1Route;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly answer: Answer;
  readonly record = new RequestRecord();
  principal: Principal = anonymous;
  waitsSince: number | undefined;
  /** Undefined: traces are off, and the client sent no traceparent. */
  trace: RequestTrace | undefined;
  readonly #began = performance.now();
  readonly #cancelled = new AbortController();
  readonly #closed = Promise.withResolvers<void>();
  readonly #options: CallOptions;
  #request: V1Request | undefined;
  #comments: WaitComments | undefined;
  #charge: Charge;
  #slot = noSlot;
  #series: RouteMetrics | undefined;

  constructor(route: V1Route, { response, requestId, answer }: CallParts, options: CallOptions) {
    this.route = route;
    this.response = response;
    this.requestId = requestId;
    this.answer = answer;
    this.#charge = new Charge(options.budget);
    this.#options = options;
    response.on("close", () => {
      this.#comments?.[Symbol.dispose]();
      if (!response.writableFinished) this.cancel(clientGone);
      this.#closed.resolve();
    });
  }

  /** Aborted with the reason for which the request ends early: an ApiError, or `clientGone`. */
  get signal(): AbortSignal {
    return this.#cancelled.signal;
  }

  cancel(reason: ApiError | typeof clientGone): void {
    this.#cancelled.abort(reason);
  }

  /** Resolves once the answer was sent, or the client has disconnected. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** The slot that answers, or `upstream NAME`. */
  get slot(): string {
    return this.#slot;
  }

  set slot(slot: string) {
    this.#slot = slot;
    this.#series = undefined;
  }

  get seconds(): number {
    return (performance.now() - this.#began) / 1000;
  }

  get metrics(): RouteMetrics {
    return (this.#series ??= this.#options.metrics.of(this.route.path, this.#slot));
  }

  get clients(): readonly Call[] {
    return [this];
  }

  get client(): string {
    return this.principal.client;
  }

  get hasBegun(): boolean {
    return this.answer.hasBegun;
  }

  get isRead(): boolean {
    return this.#request !== undefined;
  }

  /** The request was read. */
  read(request: V1Request): void {
    this.#request = request;
    this.record.isStream = request.isStream;
    this.record.requestedModel = shortName(request.model);
    this.record.body = this.#options.recent?.keepBody(request.body);
  }

  /** Gives back the charge and the files of the body: the request has ended. */
  discard(): void {
    this.#charge.end();
    this.#request?.discard?.();
  }

  arrive(waitQueue: WaitQueue, prompt: Prompt | undefined): BackendLease | Turn<BackendLease> {
    const { admission, metrics } = this.#options;
    admission.recheck(waitQueue);
    const queued = new QueuedCall(this, waitQueue, { metrics, prompt });
    return admission.arrive(waitQueue, queued) ?? queued.wait(() => admission.waitReport(waitQueue, queued));
  }

  /** Tells the client and the log which parts of the request were left out. */
  noteLeftOut(types: readonly string[] = []): void {
    if (types.length === 0) return;
    this.record.leftOut = types.join(", ");
    if (!this.response.headersSent) this.response.setHeader("x-berth-left-out", this.record.leftOut);
  }

  noteWait(waitMs: number, holdMs: number): void {
    this.record.heldMs += holdMs;
    this.record.queuedMs += waitMs - holdMs;
    this.record.waitEndedAt = steadyNow();
  }

  noteFirstByte(at: number): void {
    this.metrics.firstByte.observe((at - this.#began) / 1000);
  }

  noteFirstToken(): void {
    const { seconds } = this;
    this.record.firstTokenMs = seconds * 1000;
    const series = this.metrics.firstToken(this.record.heldMs > 0 ? "cold" : "warm");
    if (this.trace?.isSampled === true) series.observeAs(seconds, "trace_id", this.trace.traceId);
    else series.observeAs(seconds, "request_id", this.requestId);
  }

  reportWait(report: () => WaitReport): Disposable | undefined {
    if (!this.record.isStream) return undefined;
    this.#comments ??= new WaitComments(this.answer, this.#options.commentTimes);
    return this.#comments.during(report);
  }

  /** The charge of the request's body, until the body is sent and released. */
  get charge(): Charge {
    return this.#charge;
  }

  /** Gives the body's charge to a shared stream, which may outlive this call. */
  handOver(): Charge {
    const charge = this.#charge;
    this.#charge = noCharge;
    return charge;
  }

  /** The engine has the request; `isUnused`: nothing refers to its body any more. */
  bodyDone(isUnused: boolean): void {
    this.#charge.end(isUnused);
  }
}
