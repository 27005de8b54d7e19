import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ApiError } from "../../api/errors.ts";
import { DenseSet } from "../../lib/dense-set.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { Admission } from "../slots/admission.ts";
import type { WaitQueue } from "../slots/wait-queue.ts";
import type { BufferBudget } from "../slots/budget.ts";
import { Charge } from "../slots/charge.ts";
import type { AccessLog } from "../telemetry/access-log.ts";
import { toApiError } from "../http/answer.ts";
import type { CacheSync } from "../routing/cache-sync.ts";
import { Call, type Principal } from "./call.ts";
import { answerFromProvider } from "./provider-answer.ts";
import { BackendCall } from "./backend-call.ts";
import type { BackendCallOwner } from "./backend-call-options.ts";
import type { ResolutionIndex } from "../routing/index.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import { Answer, type AnswerSink } from "../relay/answer.ts";
import type { RecentRequests } from "../telemetry/recent-requests.ts";
import { shortName } from "../telemetry/request-record.ts";
import { passedTrace } from "../telemetry/trace-context.ts";
import type { Traces } from "../telemetry/traces.ts";
import type { Target } from "../routing/resolve.ts";
import { routeToProvider, routeToSlot, type SlotRoute } from "../routing/route-request.ts";
import { SharedStreams } from "./shared-streams.ts";
import type { HoldTimes } from "./stream-hold.ts";
import type { Traffic } from "./traffic.ts";
import type { Upstreams } from "../providers/upstreams.ts";
import type { V1Request, V1Route } from "../v1/route.ts";

export interface DispatchOptions {
  readonly index: () => ResolutionIndex;
  readonly cacheSync: CacheSync;
  readonly admission: Admission;
  readonly upstreams: Upstreams;
  readonly traffic: Traffic;
  readonly budget: BufferBudget;
  readonly metrics: GatewayMetrics;
  readonly log: AccessLog;
  readonly recent?: Pick<RecentRequests, "add" | "keepBody">;
  /** Undefined: traces have no receiver. */
  readonly traces?: Pick<Traces, "begin" | "ended"> | undefined;
  readonly bodyLimitBytes: number;
  readonly holdTimes: HoldTimes;
  readonly againAfterMs: readonly number[];
  /** The gateway accepts no new requests. */
  readonly isDraining: () => boolean;
  /**
   * Identifies the client, synchronously. Refused credentials are returned; throws ApiError for a refused host or site.
   */
  readonly admit: (request: IncomingMessage) => Principal | ApiError;
}

/** Finds the backend, waits for it, sends the request and relays the answer. The path of every `/v1` request. */
export class Dispatcher {
  readonly #options: DispatchOptions;
  /** Calls whose answer has not been sent. */
  readonly #calls = new DenseSet<Call>();
  readonly #shared: SharedStreams;

  constructor(options: DispatchOptions) {
    this.#options = options;
    this.#shared = new SharedStreams(options);
  }

  handle(route: V1Route, request: IncomingMessage, response: ServerResponse, requestId: string): void {
    const { budget, log } = this.#options;
    const answer = new Answer(response, requestId, route.errors, { log, budget });
    const call = new Call(route, { response, requestId, answer, charge: new Charge(budget) }, this.#options);
    this.#calls.add(call);
    response.on("close", () => this.#closed(call));
    const principal = this.#admitted(request);
    if (principal instanceof ApiError) {
      answer.refuse(principal);
      return;
    }
    call.principal = principal;
    const { traces } = this.#options;
    // Not before: spans are not for those who may not ask.
    if (traces !== undefined) call.trace = traces.begin(request.headers);
    else if (request.headers["traceparent"] !== undefined) call.trace = passedTrace(request.headers);
    void this.#read(call, request);
  }

  get sharedReaders(): number {
    return this.#shared.readers;
  }

  /**
   * Requests whose answer has not been sent, and whose client is connected: also those still being read, and slow
   * readers.
   */
  get underWay(): number {
    return this.#calls.size;
  }

  /**
   * Ends every request: one without an answer yet gets `failure`, a stream gets it as its last event. Waiting requests
   * end first: none of them may take the place of one that is ended here. Returns their number.
   */
  refuseAll(failure: ApiError): number {
    const calls = this.#calls.toArray();
    this.#options.admission.close(failure);
    for (const call of calls) {
      call.answer.refuse(failure);
      call.work?.abandon();
    }
    return calls.length;
  }

  /** Before any await: refusing a wrong token must cost little. */
  #admitted(request: IncomingMessage): Principal | ApiError {
    try {
      return this.#options.admit(request);
    } catch (error) {
      return toApiError(error);
    }
  }

  /** Never rejects: a failure ends the request. */
  async #read(call: Call, request: IncomingMessage): Promise<void> {
    try {
      if (this.#options.isDraining()) throw stopping();
      const { charge, principal } = call;
      const limits = { bodyBytes: this.#options.bodyLimitBytes, charge };
      const v1Request = await call.route.read(request, limits, principal.owner);
      // An upload may break at any time, or has already: then nothing starts for it.
      v1Request.onBroken?.((failure) => {
        call.work?.abandon();
        call.answer.refuse(failure);
      });
      if (call.answer.isOver) {
        charge.end();
        v1Request.discard?.();
        return;
      }
      if (v1Request.discard !== undefined) call.leftover = v1Request;
      const { recent } = this.#options;
      call.isStream = v1Request.isStream;
      call.record.isStream = v1Request.isStream;
      call.record.requestedModel = shortName(v1Request.model);
      call.record.body = recent?.keepBody(v1Request.body);
      const target = this.#options.cacheSync.resolve(v1Request);
      if (target === undefined) this.#awaitMeaning(call, v1Request);
      else this.#dispatch(call, v1Request, target);
    } catch (error) {
      refuse(call, error);
    }
  }

  #awaitMeaning(call: Call, v1Request: V1Request): void {
    const since = steadyNow();
    const unresolvedRequest = this.#options.cacheSync.wait(
      v1Request,
      call.charge.uncounted(v1Request.body?.length ?? 0),
      (outcome) => {
        try {
          const target = outcome();
          call.record.heldMs += steadyNow() - since;
          this.#dispatch(call, v1Request, target);
        } catch (error) {
          refuse(call, error);
        }
      },
    );
    const abandon = (): void => {
      if (unresolvedRequest.isWaiting) call.onSettled();
      unresolvedRequest.abandon();
    };
    call.work = { abandon };
    call.holdFor(unresolvedRequest);
  }

  #dispatch(call: Call, v1Request: V1Request, target: Target): void {
    call.slot = target.kind === "upstream" ? `upstream ${target.model.upstream}` : target.slot.name;
    const route =
      target.kind === "upstream"
        ? routeToProvider(v1Request, target.model)
        : routeToSlot(v1Request, target.slot, target.ref);
    call.noteLeftOut(route.backendRequest.leftOut);
    if ("model" in route) {
      const provider = this.#options.upstreams.get(route.model.upstream);
      if (provider === undefined)
        throw new ApiError("dispatch.upstream_unavailable", { message: "the upstream is gone" });
      answerFromProvider(call, route, provider, this.#options);
      return;
    }
    const waitQueue = this.#options.admission.waitQueueOf(route.slot.name, route.role, route.ref);
    const mustWait = waitQueue.queue.gate !== "open";
    if (mustWait) v1Request.checkWhole?.();
    if (mustWait && v1Request.isStream && v1Request.body !== undefined) {
      this.#share(call, route, waitQueue, v1Request.body);
      return;
    }
    const backendCall = this.#backendCall(call, route, waitQueue, call.answer, call);
    call.work = backendCall;
    backendCall.start();
    call.holdFor(backendCall);
  }

  /** A stream from a slot that is not loaded: identical ones share one call. */
  #share(call: Call, route: SlotRoute, waitQueue: WaitQueue, body: Buffer): void {
    const { slot, role, ref } = waitQueue;
    const { owner } = route.request;
    const { scope } = call.principal;
    const key = JSON.stringify([call.route.path, slot, role, ref ?? "", scope, owner, hash("sha256", body)]);
    this.#shared.join(key, waitQueue, call, (sink, callOwner) =>
      this.#backendCall(call, route, waitQueue, sink, callOwner),
    );
  }

  #backendCall(
    call: Call,
    route: SlotRoute,
    waitQueue: WaitQueue,
    sink: AnswerSink,
    owner: BackendCallOwner,
  ): BackendCall {
    const { client } = call.principal;
    const { requestId, trace } = call;
    return new BackendCall(this.#options, { waitQueue, route, client, requestId, trace, sink, owner });
  }

  /** The response is closed: it was sent, or the client disconnected. */
  #closed(call: Call): void {
    const { response, route, requestId, slot, seconds, answer } = call;
    this.#calls.delete(call);
    call.endHold();
    call.charge.end();
    if (!response.writableFinished) call.work?.abandon();
    const { failure } = answer;
    // The gateway cuts an answer that cannot carry its failure any more; its client has not left.
    const code = response.writableFinished ? response.statusCode : (failure?.status ?? 499);
    this.#options.metrics.ended(route.path, slot, code, seconds);
    if (failure !== undefined) this.#options.metrics.failed(slot, failure, answer.isAnswered);
    const { record, trace } = call;
    const ended = { endedAt: Date.now(), requestId, path: route.path, slot, code, seconds, failure, record };
    this.#options.log.closed(ended);
    this.#options.recent?.add(ended);
    if (trace?.spans !== undefined) this.#options.traces?.ended(ended, trace.spans);
  }
}

/** The error when this gateway stops. Another gateway, or the next one, can serve the request. */
export function stopping(): ApiError {
  return new ApiError("system.overloaded", {
    message: "the gateway is stopping; send the request again",
    headers: { "retry-after": "2", connection: "close" },
  });
}

/** An exception while a request is handled ends the request. */
function refuse(call: Call, error: unknown): void {
  call.onSettled();
  call.answer.refuse(toApiError(error));
}
