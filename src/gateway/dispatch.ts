import { hash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { ApiError } from "../api/errors.ts";
import type { SlotCapability } from "../api/names.ts";
import { EnginePool } from "../lib/http1/client.ts";
import { scanBody, type ScannedBody } from "../lib/json-scan.ts";
import type { Admission } from "./admission/admission.ts";
import { checkCapability, roleFor, type Endpoint } from "./admission/availability.ts";
import type { BufferBudget } from "./admission/budget.ts";
import { toApiError } from "./answer.ts";
import { readRequestBody } from "./body.ts";
import { Flight, type FlightOrder } from "./flight.ts";
import type { KnownSlot, ResolutionIndex } from "./index.ts";
import { noSlot, type GatewayMetrics, type RouteMetrics } from "./metrics.ts";
import { Answer } from "./relay/answer.ts";
import { invalidJson } from "./relay/engine-failure.ts";
import type { ErrorForm } from "./relay/error-form.ts";
import { ModelRename } from "./relay/rename.ts";
import { SharedAnswer } from "./relay/shared-answer.ts";
import { applyRules } from "./request-rules.ts";
import { resolve } from "./resolve.ts";
import { StreamHold } from "./stream-hold.ts";
import type { Traffic } from "./traffic.ts";

/** What a `/v1` route is: everything else about it is the same for all. */
export interface V1Route {
  readonly path: string;
  readonly capability: SlotCapability;
  /** Path at the engine. */
  readonly enginePath: string;
  /** Its stream begins with the delta that carries the role. */
  readonly isChat: boolean;
  /** Absent: OpenAI's form. */
  readonly errors?: ErrorForm;
}

/** Who asks, as far as queues and shared streams care. */
export interface Asker {
  /** Requests of one client stand in line behind each other. */
  readonly client: string;
  /** Streams are shared only among those with the same rights. */
  readonly scope: string;
}

export interface DispatchOptions {
  readonly index: () => ResolutionIndex;
  readonly admission: Admission;
  readonly traffic: Traffic;
  readonly budget: BufferBudget;
  readonly metrics: GatewayMetrics;
  readonly log: Logger;
  readonly bodyLimitBytes: number;
  /** The gateway takes no new requests. */
  readonly isDraining: () => boolean;
}

/** One client's request, from its header to the end of its answer. */
interface Call {
  readonly route: V1Route;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly asker: Asker;
  readonly answer: Answer;
  readonly began: number;
  slot: string;
  hold: StreamHold | undefined;
  /** Ends what is done for this client alone. */
  leave: (() => void) | undefined;
}

interface SharedFlight {
  readonly flight: Flight;
  readonly answer: SharedAnswer;
}

/** Finds who answers, waits for it, sends the request there and relays the answer. The path of every `/v1` request. */
export class Dispatcher {
  readonly #options: DispatchOptions;
  readonly #pools = new Map<number, EnginePool>();
  /** Streams that a cold slot will answer, by what makes them identical. */
  readonly #shared = new Map<string, SharedFlight>();

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  handle(
    route: V1Route,
    request: IncomingMessage,
    response: ServerResponse,
    requestId: string,
    asker: Asker = askerOf(request),
  ): void {
    const call: Call = {
      route,
      response,
      requestId,
      asker,
      answer: new Answer(response, requestId, route.errors),
      began: performance.now(),
      slot: noSlot,
      hold: undefined,
      leave: undefined,
    };
    response.once("close", () => this.#closed(call));
    this.#read(call, request).catch((error: unknown) => {
      const failure = toApiError(error);
      if (failure.code === "system.internal") this.#options.log.error({ err: error, requestId }, "request failed");
      call.answer.refuse(failure);
    });
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }

  async #read(call: Call, request: IncomingMessage): Promise<void> {
    if (this.#options.isDraining()) {
      throw new ApiError("system.overloaded", {
        message: "the gateway is stopping",
        headers: { "retry-after": "2" },
      });
    }
    checkContentType(request);
    const body = await readRequestBody(request, this.#options.bodyLimitBytes);
    if (!call.answer.isOver) this.#dispatch(call, body);
  }

  #dispatch(call: Call, body: Buffer): void {
    const { route, answer } = call;
    const { index, traffic, admission } = this.#options;
    const { scanned, model } = readModel(body);
    const target = resolve(index(), model, (name) => traffic.inFlight(name));
    if (target.kind === "upstream") {
      throw new ApiError("system.not_implemented", {
        message: `${target.ref} is served by upstream ${target.name}; this version reaches no upstreams yet`,
      });
    }
    const { slot } = target;
    call.slot = slot.name;
    checkCapability(slot, route.capability);
    const line = admission.line(slot.name, roleFor(slot, route.capability));
    if (!scanned.isStream || line.queue.door === "open") {
      const flight = this.#flight(call, slot, { body, scanned, model }, { line, sink: answer });
      call.leave = () => flight.abandon();
      flight.start();
      this.#holdStream(call, flight, scanned.isStream);
      return;
    }
    const key = `${route.path} ${line.slot} ${line.role} ${call.asker.scope} ${hash("sha256", body)}`;
    let shared = this.#shared.get(key);
    const isFirst = shared?.answer.isJoinable !== true;
    if (shared?.answer.isJoinable !== true) {
      const all = new SharedAnswer({ budget: this.#options.budget });
      const onSettled = (): void => this.#forget(key, all);
      const flight = this.#flight(call, slot, { body, scanned, model }, { line, sink: all, onSettled });
      shared = { flight, answer: all };
      this.#shared.set(key, shared);
    }
    const joined = shared;
    joined.answer.join(answer);
    call.leave = () => {
      if (joined.answer.leave(answer) === 0) joined.flight.abandon();
    };
    if (isFirst) joined.flight.start();
    this.#holdStream(call, joined.flight, true);
  }

  #forget(key: string, answer: SharedAnswer): void {
    if (this.#shared.get(key)?.answer === answer) this.#shared.delete(key);
  }

  #holdStream(call: Call, flight: Flight, isStream: boolean): void {
    if (isStream && flight.isWaiting) call.hold = new StreamHold(call.answer, flight);
  }

  #flight(
    call: Call,
    slot: KnownSlot,
    { body, scanned, model }: { body: Buffer; scanned: ScannedBody; model: string },
    to: Pick<FlightOrder, "line" | "sink"> & { onSettled?: () => void },
  ): Flight {
    const { route, requestId, began, asker } = call;
    const served = slot.status?.model.served ?? model;
    const parts = requestParts(body, scanned, served, slot);
    let length = 0;
    for (const part of parts) length += part.length;
    const { firstByte } = this.#metrics(call);
    const accept = scanned.isStream ? "text/event-stream" : "application/json";
    const { firstByte: firstByteSeconds, idle } = slot.spec.timeoutSeconds;
    const timeouts = { firstByteMs: firstByteSeconds * 1000, idleMs: idle * 1000 };
    return new Flight(this.#options, {
      line: to.line,
      sink: to.sink,
      client: asker.client,
      bytes: length,
      body,
      rename: new ModelRename(served, model),
      isChat: route.isChat,
      translation: undefined,
      isRepeatable: true,
      send: (endpoint, events) =>
        this.#pool(endpoint).request(
          // Only what an engine needs: credentials, cookies and forwarding headers stay here.
          `POST ${route.enginePath} HTTP/1.1\r\nhost: ${endpoint.host}:${endpoint.port}\r\ncontent-type: application/json\r\n` +
            `content-length: ${length}\r\nx-request-id: ${requestId}\r\naccept: ${accept}\r\n\r\n`,
          parts,
          timeouts,
          events,
        ),
      onFirstByte: () => firstByte.observe((performance.now() - began) / 1000),
      onSettled: to.onSettled ?? nothing,
    });
  }

  /** The response is closed: all was sent, or the client left. */
  #closed(call: Call): void {
    const { response, route, requestId, slot } = call;
    call.hold?.end();
    if (!response.writableFinished) call.leave?.();
    const code = response.writableFinished ? response.statusCode : 499;
    const seconds = (performance.now() - call.began) / 1000;
    const metrics = this.#metrics(call);
    metrics.duration.observe(seconds);
    metrics.count(code);
    const { log } = this.#options;
    if (!log.isLevelEnabled("info")) return;
    const failure = call.answer.failure?.code;
    log.info(
      { requestId, slot, status: code, ms: Math.round(seconds * 1000), ...(failure === undefined ? {} : { failure }) },
      `${route.path} ${slot} ${code}${failure === undefined ? "" : ` ${failure}`}`,
    );
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

const nothing = (): void => undefined;

/** Without authentication the peer is all that tells clients apart. */
function askerOf(request: IncomingMessage): Asker {
  return { client: request.socket.remoteAddress ?? "", scope: "" };
}

function checkContentType(request: IncomingMessage): void {
  const type = request.headers["content-type"];
  // curl -d sends a form's type for what is JSON; OpenAI's own API takes it too.
  if (type === undefined || /^application\/(json|x-www-form-urlencoded)\b/i.test(type)) return;
  throw new ApiError("dispatch.unsupported_media_type", { message: "the body must be application/json" });
}

function readModel(body: Buffer): { scanned: ScannedBody; model: string } {
  const scanned = scanBody(body);
  if (scanned === undefined) throw invalidJson(body);
  const { model } = scanned;
  if (model === undefined || model === "")
    throw new ApiError("dispatch.missing_model", { details: { path: ["model"] } });
  return { scanned, model };
}

/** The body for the engine: its name for the model, the slot's rules. Parts of the client's own buffer where it can be. */
function requestParts(body: Buffer, scanned: ScannedBody, served: string, { spec }: KnownSlot): readonly Buffer[] {
  const ruled = applyRules(body, spec.request);
  const at = ruled === body ? scanned : scanBody(ruled);
  if (at === undefined || at.model === served || at.modelStart < 0) return [ruled];
  return [ruled.subarray(0, at.modelStart), Buffer.from(JSON.stringify(served)), ruled.subarray(at.modelEnd)];
}
