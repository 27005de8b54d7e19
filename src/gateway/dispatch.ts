import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { ApiError } from "../api/errors.ts";
import { EnginePool } from "../lib/http1/client.ts";
import type { Admission, Line } from "./admission/admission.ts";
import { checkCapability, roleFor, type Endpoint } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import type { AccessLog } from "./access-log.ts";
import { toApiError } from "./answer.ts";
import type { FirstLook } from "./first-look.ts";
import { nobody, type Asker, type Call } from "./call.ts";
import { Flight } from "./flight.ts";
import type { KnownSlot } from "./index.ts";
import { noSlot, type GatewayMetrics, type RouteMetrics } from "./metrics.ts";
import { Answer, type AnswerSink } from "./relay/answer.ts";
import { Relay } from "./relay/relay.ts";
import { ModelRename } from "./relay/rename.ts";
import { SharedAnswer } from "./relay/shared-answer.ts";
import type { Target } from "./resolve.ts";
import { StreamHold, type HoldTimes, type Waiter } from "./stream-hold.ts";
import type { Traffic } from "./traffic.ts";
import type { UpstreamModel } from "./upstreams/catalog.ts";
import type { Upstreams } from "./upstreams/upstreams.ts";
import type { Leg, V1Request, V1Route } from "./v1/route.ts";

export interface DispatchOptions {
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
  /** Who asks, at once. Throws ApiError of `auth.*`. */
  readonly admit: (request: IncomingMessage) => Asker;
}

/** A request's way to an engine, and the line before it. */
interface Meeting {
  readonly slot: KnownSlot;
  readonly leg: Leg;
  readonly line: Line;
}

interface SharedFlight {
  readonly flight: Flight;
  readonly answer: SharedAnswer;
}

const nothing = (): void => undefined;

/** Finds who answers, waits for it, sends the request there and relays the answer. The path of every `/v1` request. */
export class Dispatcher {
  readonly #options: DispatchOptions;
  readonly #pools = new Map<number, EnginePool>();
  /** Streams that a cold slot will answer, by what makes them identical. */
  readonly #shared = new Map<string, SharedFlight>();

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  handle(route: V1Route, request: IncomingMessage, response: ServerResponse, requestId: string): void {
    const call: Call = {
      route,
      response,
      requestId,
      asker: nobody,
      answer: new Answer(response, requestId, route.errors, this.#options.log),
      began: performance.now(),
      slot: noSlot,
      hold: undefined,
      work: undefined,
    };
    response.once("close", () => this.#closed(call));
    this.#read(call, request).catch((error: unknown) => call.answer.refuse(toApiError(error)));
  }

  /** Clients that get, or will get, a stream that others may share. */
  get sharedReaders(): number {
    let readers = 0;
    for (const { answer } of this.#shared.values()) readers += answer.readers;
    return readers;
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }

  async #read(call: Call, request: IncomingMessage): Promise<void> {
    call.asker = this.#options.admit(request);
    if (this.#options.isDraining()) {
      throw new ApiError("system.overloaded", {
        message: "the gateway is stopping",
        headers: { "retry-after": "2" },
      });
    }
    const asked = await call.route.read(request, { bodyBytes: this.#options.bodyLimitBytes });
    if (call.answer.isOver) {
      asked.discard?.();
      return;
    }
    this.#try(call, asked, () => {
      const target = this.#options.firstLook.resolve(asked.slot ?? asked.model);
      if (target === undefined) this.#awaitMeaning(call, asked);
      else this.#dispatch(call, asked, target);
    });
  }

  /** What throws on the way of a request ends it. */
  #try(call: Call, asked: V1Request, act: () => void): void {
    try {
      act();
    } catch (error) {
      asked.discard?.();
      call.answer.refuse(toApiError(error));
    }
  }

  #awaitMeaning(call: Call, asked: V1Request): void {
    const newcomer = this.#options.firstLook.wait(asked.slot ?? asked.model, asked.body?.length ?? 0, (outcome) => {
      this.#try(call, asked, () => this.#dispatch(call, asked, outcome()));
    });
    const abandon = (): void => {
      if (newcomer.isWaiting) asked.discard?.();
      newcomer.abandon();
    };
    call.work = { abandon };
    asked.onBroken?.((failure) => {
      abandon();
      call.answer.refuse(failure);
    });
    this.#holdStream(call, newcomer, asked.isStream);
  }

  #dispatch(call: Call, asked: V1Request, target: Target): void {
    if (target.kind === "upstream") {
      this.#askProvider(call, asked, target.model);
      return;
    }
    const { admission } = this.#options;
    const { slot } = target;
    call.slot = slot.name;
    const leg = asked.forSlot(slot);
    checkCapability(slot, leg.capability);
    const line = admission.line(slot.name, roleFor(slot, leg.capability));
    if (asked.isStream && asked.body !== undefined && line.queue.door !== "open") {
      this.#share(call, asked, { slot, leg, line }, asked.body);
      return;
    }
    const flight = this.#flight(call, asked, { slot, leg, line }, call.answer, () => asked.discard?.());
    call.work = flight;
    asked.onBroken?.((failure) => {
      flight.abandon();
      call.answer.refuse(failure);
    });
    flight.start();
    this.#holdStream(call, flight, asked.isStream);
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
    const { firstByte } = this.#metrics(call);
    const { requestId, answer, began } = call;
    const relay = new Relay({
      sink: answer,
      rename: new ModelRename(providerModel, asked.model),
      isChat: leg.isChat,
      endMark: leg.endMark,
      translation: leg.translation,
      body: asked.body,
      onFirstByte: () => firstByte.observe((performance.now() - began) / 1000),
      onByte: nothing,
      onUnsent: () => false,
      onSettled: () => asked.discard?.(),
    });
    call.work = { abandon: () => relay.abort() };
    asked.onBroken?.((failure) => {
      relay.abort();
      answer.refuse(failure);
    });
    const { path, body, accept } = leg;
    relay.start(provider.request({ path, body, contentType: "application/json", accept, requestId }, relay));
  }

  /** A stream from a slot that is not there: identical ones become one. */
  #share(call: Call, asked: V1Request, to: Meeting, body: Buffer): void {
    const { line } = to;
    const key = `${call.route.path} ${line.slot} ${line.role} ${call.asker.scope} ${hash("sha256", body)}`;
    let shared = this.#shared.get(key);
    const isFirst = shared?.answer.isJoinable !== true;
    if (shared?.answer.isJoinable !== true) {
      const all: SharedAnswer = new SharedAnswer({ budget: this.#options.budget, onDeserted: () => first.abandon() });
      const first = this.#flight(call, asked, to, all, () => this.#forget(key, all));
      shared = { flight: first, answer: all };
      this.#shared.set(key, shared);
    }
    const { flight, answer } = shared;
    answer.join(call.answer);
    call.work = {
      abandon: () => {
        if (answer.leave(call.answer) === 0) flight.abandon();
      },
    };
    if (isFirst) flight.start();
    this.#holdStream(call, flight, true);
  }

  #forget(key: string, answer: SharedAnswer): void {
    if (this.#shared.get(key)?.answer === answer) this.#shared.delete(key);
  }

  #holdStream(call: Call, waiter: Waiter, isStream: boolean): void {
    if (!isStream || !waiter.isWaiting) return;
    call.hold?.end();
    call.hold = new StreamHold(call.answer, waiter, this.#options.holdTimes);
  }

  #flight(call: Call, asked: V1Request, to: Meeting, sink: AnswerSink, onSettled: () => void): Flight {
    const { slot, leg, line } = to;
    const { requestId, began, asker } = call;
    const { firstByte } = this.#metrics(call);
    const { timeoutSeconds } = slot.spec;
    const timeouts = { firstByteMs: timeoutSeconds.firstByte * 1000, idleMs: timeoutSeconds.idle * 1000 };
    return new Flight(this.#options, {
      line,
      sink,
      client: asker.client,
      bytes: leg.bytes,
      body: asked.body,
      rename: new ModelRename(leg.served, asked.model),
      isChat: leg.isChat,
      endMark: leg.endMark,
      translation: leg.translation,
      isRepeatable: leg.isRepeatable,
      send: (endpoint, events) => leg.send({ endpoint, pool: this.#pool(endpoint), requestId, timeouts }, events),
      onFirstByte: () => firstByte.observe((performance.now() - began) / 1000),
      onSettled,
    });
  }

  /** The response is closed: all was sent, or the client left. */
  #closed(call: Call): void {
    const { response, route, requestId, slot } = call;
    call.hold?.end();
    if (!response.writableFinished) call.work?.abandon();
    const code = response.writableFinished ? response.statusCode : 499;
    const seconds = (performance.now() - call.began) / 1000;
    const metrics = this.#metrics(call);
    metrics.duration.observe(seconds);
    metrics.count(code);
    this.#options.log.closed({ requestId, path: route.path, slot, code, seconds, failure: call.answer.failure });
  }

  #metrics(call: Call): RouteMetrics {
    return this.#options.metrics.of(call.route.path, call.slot);
  }

  #pool({ host, port }: Endpoint): EnginePool {
    let pool = this.#pools.get(port);
    if (pool === undefined) {
      pool = new EnginePool(host, port);
      this.#pools.set(port, pool);
    }
    return pool;
  }
}
