import type { IncomingMessage, ServerResponse } from "node:http";
import { ApiError } from "../../api/errors.ts";
import { DenseSet } from "../../lib/dense-set.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { Answer } from "../relay/answer.ts";
import type { CacheSync } from "../routing/cache-sync.ts";
import type { Target } from "../routing/resolve.ts";
import { prepare, type PreparedForProvider, type PreparedForSlot } from "../routing/prepare.ts";
import type { WaitReport } from "../slots/wait-report.ts";
import type { BufferBudget } from "../slots/budget.ts";
import type { AccessLog } from "../telemetry/access-log.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { RecentRequests } from "../telemetry/recent-requests.ts";
import { RequestRecord, type EndedRequest } from "../telemetry/request-record.ts";
import { noSlot } from "../telemetry/slot-metrics.ts";
import { passedTrace, type RequestTrace } from "../telemetry/trace-context.ts";
import type { Traces } from "../telemetry/traces.ts";
import type { Upstreams } from "../providers/upstreams.ts";
import type { V1Request, V1Route } from "../v1/route.ts";
import { Call, clientGone, type Principal } from "./call.ts";
import { ProviderDispatch, type ProviderEntry } from "./provider-dispatch.ts";
import type { Dispatch } from "./recipient.ts";
import { refuse, relay } from "./relay.ts";
import { send } from "./send.ts";
import { SlotDispatch, type SlotEntry, type SlotDispatchOptions } from "./slot-dispatch.ts";
import { SharedStreams } from "./share.ts";
import type { CommentTimes } from "./wait-comments.ts";

export interface ModelProxyOptions extends SlotDispatchOptions {
  readonly cacheSync: CacheSync;
  readonly upstreams: Upstreams;
  /** Bounds the memory of bodies and answers. */
  readonly budget: BufferBudget;
  readonly metrics: GatewayMetrics;
  readonly log: AccessLog;
  readonly recent?: Pick<RecentRequests, "add" | "keepBody">;
  /** Undefined: traces have no receiver. */
  readonly traces?: Pick<Traces, "begin"> | undefined;
  readonly bodyLimitBytes: number;
  readonly commentTimes: CommentTimes;
  /** The gateway accepts no new requests. */
  readonly isDraining: () => boolean;
  /** Throws ApiError for refused credentials, and for a refused host or site. */
  readonly identify: (request: IncomingMessage) => Principal;
}

/** The path of every request for a model, from its header to the end of its answer. */
export class ModelProxy {
  readonly #options: ModelProxyOptions;
  /** Calls whose answer has not been sent. */
  readonly #calls = new DenseSet<Call>();
  readonly #shared: SharedStreams;

  constructor(options: ModelProxyOptions) {
    this.#options = options;
    this.#shared = new SharedStreams(options);
  }

  /** Never rejects: a failure ends the request. */
  async handle(route: V1Route, request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    const { budget, cacheSync, bodyLimitBytes } = this.#options;
    const call = this.#begin(route, response, requestId);
    try {
      call.principal = this.#options.identify(request);
      call.trace = this.#traceOf(request);
      if (this.#options.isDraining()) throw stopping();
      const limits = { bodyBytes: bodyLimitBytes, charge: call.charge };
      const asked = await route.read(request, limits, call.principal.owner);
      call.read(asked);
      call.signal.throwIfAborted();
      const target = cacheSync.resolve(asked) ?? (await this.#awaitMeaning(asked, call));
      call.slot = slotOf(target);
      const prepared = prepare(asked, target);
      call.noteLeftOut(prepared.backendRequest.leftOut);
      const entry = this.#entryFor(prepared, call);
      const shared = "waitQueue" in entry ? this.#shared.join(entry, call) : undefined;
      if (shared !== undefined) return await shared;
      using dispatch = this.#dispatchFor(entry, call);
      await dispatch.enter();
      using answer = await send(dispatch, call, this.#options);
      await relay(answer, dispatch, call.answer, budget);
    } catch (error) {
      if (error !== clientGone) refuse(call.answer, error);
    } finally {
      call.discard();
      await call.closed;
      this.#calls.delete(call);
      record(call, this.#options);
    }
  }

  /** Counts and logs a request that was refused before it came to a route. */
  recordUnrouted(refused: Pick<EndedRequest, "requestId" | "path" | "seconds">, failure: ApiError): void {
    const ended = { ...refused, endedAt: Date.now(), slot: noSlot, code: failure.status, failure };
    const { metrics, log } = this.#options;
    // Not among the recent ones: a client that tries addresses would push all others out.
    recordEnded({ ...ended, record: new RequestRecord() }, { metrics, log }, false);
  }

  get sharedReaders(): number {
    return this.#shared.readers;
  }

  /**
   * Requests whose answer has not been sent, and whose client is connected: also those whose body is arriving, or whose client
   * reads slowly.
   */
  get underWay(): number {
    return this.#calls.size;
  }

  /**
   * Ends every request: one without an answer yet gets `failure`, a stream gets it as its last event. Waiting requests
   * end first: none of them may take the place of one that is ended here. Returns how many requests were ended.
   */
  refuseAll(failure: ApiError): number {
    const calls = this.#calls.toArray();
    this.#options.admission.close(failure);
    for (const call of calls) {
      call.cancel(failure);
      if (call.isRead) continue;
      refuse(call.answer, failure);
      // Closes the connection: the body may never come, and Node does not report the end of a request that was answered.
      call.response.once("finish", () => call.response.req.destroy());
    }
    return calls.length;
  }

  #begin(route: V1Route, response: ServerResponse, requestId: string): Call {
    const { budget, log } = this.#options;
    const answer = new Answer(response, requestId, route.errors, { log, budget });
    const call = new Call(route, { response, requestId, answer }, this.#options);
    this.#calls.add(call);
    return call;
  }

  /** Waits until it is known which slot or provider `model` names. */
  async #awaitMeaning(asked: V1Request, call: Call): Promise<Target> {
    call.charge.check();
    const since = steadyNow();
    using _ = call.reportWait(() => unknownWait);
    const target = await this.#options.cacheSync.wait(asked, call.signal);
    call.record.heldMs += steadyNow() - since;
    return target;
  }

  /** Throws ApiError where the body is wrong, the request may not wait, or its provider is gone. */
  #entryFor(prepared: PreparedForSlot | PreparedForProvider, call: Call): SlotEntry | ProviderEntry {
    const { admission, upstreams } = this.#options;
    if ("slot" in prepared) {
      const waitQueue = admission.waitQueueOf(prepared.slot.name, prepared.role, prepared.ref);
      // A wrong request loads no model.
      if (waitQueue.queue.gate !== "open") prepared.request.checkBeforeLoad?.();
      if (!waitQueue.queue.isFree) call.charge.check();
      return { prepared, waitQueue };
    }
    const provider = upstreams.get(prepared.model.upstream);
    if (provider === undefined)
      throw new ApiError("dispatch.upstream_unavailable", { message: "the upstream is gone" });
    if (!provider.queue.isFree) call.charge.check();
    return { prepared, provider };
  }

  #dispatchFor(entry: SlotEntry | ProviderEntry, call: Call): Dispatch {
    if ("waitQueue" in entry) return new SlotDispatch(this.#options, entry, call);
    return new ProviderDispatch(this.#options.metrics, entry, call);
  }

  /** Called after `identify`: a refused client gets no span. */
  #traceOf({ headers }: IncomingMessage): RequestTrace | undefined {
    const { traces } = this.#options;
    if (traces !== undefined) return traces.begin(headers);
    return headers["traceparent"] === undefined ? undefined : passedTrace(headers);
  }
}

type Records = Pick<ModelProxyOptions, "metrics" | "log" | "recent">;

/** Counts and logs a request whose answer was sent or has failed, or whose client has disconnected. */
function record(call: Call, records: Records): void {
  const { response, requestId, slot, seconds, answer, trace } = call;
  const { path } = call.route;
  const { failure } = answer;
  // An answer that the gateway cut has the status of its failure; 499: the client has left.
  const code = response.writableFinished ? response.statusCode : (failure?.status ?? 499);
  const ended = { endedAt: Date.now(), requestId, path, slot, code, seconds, failure, record: call.record };
  recordEnded(ended, records, answer.isAnswered);
  trace?.ended?.(ended);
}

/** `isAnswered`: its failure broke off an answer that had begun. */
function recordEnded(ended: EndedRequest, { metrics, log, recent }: Records, isAnswered: boolean): void {
  const { path, slot, code, seconds, failure } = ended;
  metrics.ended(path, slot, code, seconds);
  if (failure !== undefined) metrics.failed(slot, failure, isAnswered);
  log.closed(ended);
  recent?.add(ended);
}

/** The client's name for the model may be any text: the comment says `unknown`. */
const unknownWait: WaitReport = { at: "slot", name: "unknown", state: "offline", position: 0, progress: undefined };

function slotOf(target: Target): string {
  return target.kind === "upstream" ? `upstream ${target.model.upstream}` : target.slot.name;
}

/** The error when this gateway stops. Another gateway, or the next one, can serve the request. */
export function stopping(): ApiError {
  return new ApiError("system.overloaded", {
    message: "the gateway is stopping; send the request again",
    headers: { "retry-after": "2", connection: "close" },
  });
}
