import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ApiError } from "../api/errors.ts";
import { EnginePools } from "../lib/http1/client.ts";
import type { Admission, Line } from "./admission/admission.ts";
import { checkCapability, roleFor } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import { Charge } from "./admission/charge.ts";
import type { AccessLog } from "./access-log.ts";
import { toApiError } from "./answer.ts";
import type { FirstLook } from "./first-look.ts";
import { Call, type Asker } from "./call.ts";
import { Flight, type FlightControl, type FlightOrder, type FlightOwner } from "./flight.ts";
import type { KnownSlot, ResolutionIndex } from "./index.ts";
import type { GatewayMetrics } from "./metrics.ts";
import { Answer, type AnswerSink } from "./relay/answer.ts";
import { Relay } from "./relay/relay.ts";
import { ModelRename } from "./relay/rename.ts";
import { meansReranker, resolveAgain, type Target } from "./resolve.ts";
import { SharedStreams } from "./sharing.ts";
import type { HoldTimes } from "./stream-hold.ts";
import type { Traffic } from "./traffic.ts";
import type { UpstreamModel } from "./upstreams/catalog.ts";
import type { Upstreams } from "./upstreams/upstreams.ts";
import type { Leg, V1Request, V1Route } from "./v1/route.ts";

export interface DispatchOptions {
  readonly index: () => ResolutionIndex;
  readonly firstLook: FirstLook;
  readonly admission: Admission;
  readonly upstreams: Upstreams;
  readonly traffic: Traffic;
  readonly budget: BufferBudget;
  readonly metrics: GatewayMetrics;
  readonly log: AccessLog;
  readonly bodyLimitBytes: number;
  readonly holdTimes: HoldTimes;
  readonly againAfterMs: readonly number[];
  /** The gateway takes no new requests. */
  readonly isDraining: () => boolean;
  /** Who asks, at once. Refused credentials are returned; throws ApiError for a host or site that is not let in. */
  readonly admit: (request: IncomingMessage) => Asker | ApiError;
}

/** A request's way to an engine, and the line before it. */
interface Meeting {
  readonly slot: KnownSlot;
  readonly leg: Leg;
  readonly line: Line;
}

const nothing = (): void => undefined;

/** Finds who answers, waits for it, sends the request there and relays the answer. The path of every `/v1` request. */
export class Dispatcher {
  readonly #options: DispatchOptions & FlightControl;
  readonly #pools = new EnginePools();
  /** Those whose answer has not left yet. */
  readonly #calls = new Set<Call>();
  readonly #shared: SharedStreams;

  constructor(options: DispatchOptions) {
    this.#options = { ...options, pools: this.#pools, renew: (order) => this.#renew(order) };
    this.#shared = new SharedStreams(options);
  }

  handle(route: V1Route, request: IncomingMessage, response: ServerResponse, requestId: string): void {
    const { budget, log } = this.#options;
    const answer = new Answer(response, requestId, route.errors, { log, budget });
    const call = new Call(route, { response, requestId, answer, charge: new Charge(budget) }, this.#options);
    this.#calls.add(call);
    response.on("close", () => this.#closed(call));
    const asker = this.#admitted(request);
    if (asker instanceof ApiError) {
      answer.refuse(asker);
      return;
    }
    call.asker = asker;
    this.#read(call, request).catch((error: unknown) => refuse(call, error));
  }

  get sharedReaders(): number {
    return this.#shared.readers;
  }

  /** Requests whose answer has not left yet, nor their client: also those still being read, and slow readers. */
  get underWay(): number {
    return this.#calls.size;
  }

  /**
   * Ends every request: one without an answer yet gets `failure`, a stream gets it as its last event. Requests that wait
   * end first: none of them may take the place of one that is ended here. Answers with how many there were.
   */
  refuseAll(failure: ApiError): number {
    const calls = [...this.#calls];
    this.#options.admission.close(failure);
    for (const call of calls) {
      call.answer.refuse(failure);
      call.work?.abandon();
    }
    return calls.length;
  }

  close(): void {
    this.#pools.close();
  }

  /** Before anything is awaited: refusing a wrong token must cost little. */
  #admitted(request: IncomingMessage): Asker | ApiError {
    try {
      return this.#options.admit(request);
    } catch (error) {
      return toApiError(error);
    }
  }

  async #read(call: Call, request: IncomingMessage): Promise<void> {
    if (this.#options.isDraining()) throw stopping();
    const { charge, asker } = call;
    const limits = { bodyBytes: this.#options.bodyLimitBytes, charge };
    const asked = await call.route.read(request, limits, asker.principal);
    // What is still on its way may break at any time, or has already: then nothing begins for it.
    asked.onBroken?.((failure) => {
      call.work?.abandon();
      call.answer.refuse(failure);
    });
    if (call.answer.isOver) {
      charge.end();
      asked.discard?.();
      return;
    }
    if (asked.discard !== undefined) call.leftover = asked;
    call.isStream = asked.isStream;
    try {
      const target = this.#options.firstLook.resolve(asked);
      if (target === undefined) this.#awaitMeaning(call, asked);
      else this.#dispatch(call, asked, target);
    } catch (error) {
      refuse(call, error);
    }
  }

  #awaitMeaning(call: Call, asked: V1Request): void {
    const newcomer = this.#options.firstLook.wait(asked, call.charge.uncounted(asked.body?.length ?? 0), (outcome) => {
      try {
        this.#dispatch(call, asked, outcome());
      } catch (error) {
        refuse(call, error);
      }
    });
    const abandon = (): void => {
      if (newcomer.isWaiting) call.onSettled();
      newcomer.abandon();
    };
    call.work = { abandon };
    call.holdFor(newcomer);
  }

  #dispatch(call: Call, asked: V1Request, target: Target): void {
    if (target.kind === "upstream") {
      this.#askProvider(call, asked, target.model);
      return;
    }
    const { admission } = this.#options;
    const { slot } = target;
    call.slot = slot.name;
    const leg = legTo(slot, asked);
    const line = admission.line(slot.name, roleFor(slot, leg.capability));
    if (asked.isStream && asked.body !== undefined && line.queue.door !== "open") {
      this.#share(call, asked, { slot, leg, line }, asked.body);
      return;
    }
    const flight = this.#flight(call, asked, { slot, leg, line }, call.answer, call);
    call.work = flight;
    flight.start();
    call.holdFor(flight);
  }

  #askProvider(call: Call, asked: V1Request, model: UpstreamModel): void {
    const { upstream, providerModel, spec } = model;
    call.slot = `upstream ${upstream}`;
    const provider = this.#options.upstreams.get(upstream);
    const leg = asked.forProvider?.(model);
    if (leg === undefined || !spec.capabilities.includes(leg.capability)) {
      throw new ApiError("dispatch.capability_mismatch", {
        message: `${asked.model} of upstream ${upstream} does not serve this route`,
        details: { upstream, capabilities: spec.capabilities },
      });
    }
    if (provider === undefined)
      throw new ApiError("dispatch.upstream_unavailable", { message: "the upstream is gone" });
    const { requestId, answer } = call;
    // The provider counts what it keeps of a body that is here.
    if (Array.isArray(leg.body)) call.onBodyDone(false);
    const sender = {
      onFirstByte: () => call.onFirstByte(),
      onBodyDone: (isUnused: boolean) => call.onBodyDone(isUnused),
      onByte: nothing,
      onUnsent: () => false,
      onSettled: () => call.onSettled(),
    };
    const rename = new ModelRename(providerModel, asked.model);
    const { budget } = this.#options;
    const relay = new Relay({ sender, sink: answer, rename, format: leg.format, body: undefined, budget });
    call.work = { abandon: () => relay.abort() };
    const { path, body, accept } = leg;
    const exchange = provider.request(
      { model: providerModel, path, body, contentType: "application/json", accept, requestId },
      relay,
    );
    relay.start(exchange);
    call.holdFor(exchange);
  }

  /** A stream from a slot that is not there: identical ones become one. */
  #share(call: Call, asked: V1Request, to: Meeting, body: Buffer): void {
    const { slot, role } = to.line;
    const key = JSON.stringify([call.route.path, slot, role, call.asker.scope, asked.owner, hash("sha256", body)]);
    this.#shared.join(key, to.line, call, (sink, owner) => this.#flight(call, asked, to, sink, owner));
  }

  #flight(call: Call, asked: V1Request, to: Meeting, sink: AnswerSink, owner: FlightOwner): Flight {
    const { slot, leg, line } = to;
    const { client } = call.asker;
    return new Flight(this.#options, { line, slot, asked, leg, client, requestId: call.requestId, sink, owner });
  }

  #renew(order: FlightOrder): FlightOrder {
    const { asked } = order;
    const slot = resolveAgain(this.#options.index(), asked, order.slot);
    return slot === order.slot ? order : { ...order, slot, leg: legTo(slot, asked) };
  }

  /** The response is closed: all was sent, or the client left. */
  #closed(call: Call): void {
    const { response, route, requestId, slot, seconds, metrics } = call;
    this.#calls.delete(call);
    call.endHold();
    call.charge.end();
    if (!response.writableFinished) call.work?.abandon();
    const code = response.writableFinished ? response.statusCode : 499;
    metrics.duration.observe(seconds);
    metrics.codes.set(code, (metrics.codes.get(code) ?? 0) + 1);
    this.#options.log.closed({ requestId, path: route.path, slot, code, seconds, failure: call.answer.failure });
  }
}

/** How that slot is asked as it is now. Throws ApiError. */
function legTo(slot: KnownSlot, asked: V1Request): Leg {
  const leg = asked.forSlot(slot);
  checkCapability(slot, leg.capability);
  if (leg.capability !== "rerank" && !slot.status?.aliases.includes(asked.model) && meansReranker(slot, asked.model)) {
    throw new ApiError("dispatch.capability_mismatch", {
      message: `slot ${slot.name} holds ${asked.model.slice(0, 200)} to rerank with, not for ${leg.capability}`,
      details: { slot: slot.name, capability: leg.capability, capabilities: ["rerank"] },
    });
  }
  return leg;
}

/** What a request hears that this gateway serves no more. Another gateway, or the next one, takes it. */
export function stopping(): ApiError {
  return new ApiError("system.overloaded", {
    message: "the gateway is stopping; send the request again",
    headers: { "retry-after": "2", connection: "close" },
  });
}

/** What throws on the way of a request ends it. */
function refuse(call: Call, error: unknown): void {
  call.onSettled();
  call.answer.refuse(toApiError(error));
}
