import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { ApiError } from "../api/errors.ts";
import type { SlotCapability } from "../api/names.ts";
import { EnginePool, type Exchange, type ExchangeError } from "../lib/http1/client.ts";
import type { ResponseHead } from "../lib/http1/response-parser.ts";
import { scanBody, type ScannedBody } from "../lib/json-scan.ts";
import { sendError, toApiError } from "./answer.ts";
import { readRequestBody } from "./body.ts";
import { EventStream, StreamGarbage } from "./event-stream.ts";
import type { ResolutionIndex } from "./index.ts";
import { noSlot, type GatewayMetrics } from "./metrics.ts";
import { endpointFor, type Endpoint } from "./readiness.ts";
import { ModelRename } from "./rename.ts";
import { resolve } from "./resolve.ts";
import type { PublishedOperator } from "../api/status.ts";
import type { SlotTraffic, Traffic } from "./traffic.ts";

/** What a `/v1` route is: everything else about it is the same for all. */
export interface V1Route {
  readonly path: string;
  readonly capability: SlotCapability;
  /** Path at the engine. */
  readonly enginePath: string;
  /** Its stream begins with the delta that carries the role. */
  readonly isChat: boolean;
}

export interface DispatchOptions {
  readonly index: () => ResolutionIndex;
  readonly operator: () => PublishedOperator | undefined;
  readonly traffic: Traffic;
  readonly metrics: GatewayMetrics;
  readonly log: Logger;
  readonly bodyLimitBytes: number;
  readonly bootId: string;
  /** The gateway takes no new requests. */
  readonly isDraining: () => boolean;
}

/** More of an engine's error than this helps nobody. */
const errorLimitBytes = 65_536;
/** A JSON answer is small; a larger one is relayed without waiting for its end. */
const wholeLimitBytes = 8 * 1024 * 1024;
/** How much may wait for a slow reader before the engine is paused. */
const relayHighWaterBytes = 65_536;

/** Finds who answers, sends the request there and relays the answer. The path of every `/v1` request. */
export class Dispatcher {
  readonly #options: DispatchOptions;
  readonly #pools = new Map<number, EnginePool>();

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  async handle(route: V1Route, request: IncomingMessage, response: ServerResponse, requestId: string): Promise<void> {
    const began = performance.now();
    let slot = noSlot;
    try {
      if (this.#options.isDraining())
        throw new ApiError("system.overloaded", {
          message: "the gateway is stopping",
          headers: { "retry-after": "2" },
        });
      checkContentType(request);
      const body = await readRequestBody(request, this.#options.bodyLimitBytes);
      const { scanned, model } = readModel(body);
      const target = resolve(this.#options.index(), model, (name) => this.#options.traffic.inFlight(name));
      if (target.kind === "upstream") {
        throw new ApiError("system.not_implemented", {
          message: `${target.ref} is served by upstream ${target.name}; this version reaches no upstreams yet`,
        });
      }
      slot = target.slot.name;
      let endpoint: Endpoint;
      try {
        endpoint = endpointFor(target.slot, route.capability, this.#options.bootId, this.#options.operator());
      } catch (error) {
        this.#options.traffic.asked(slot);
        throw error;
      }
      const served = target.slot.status?.model.served ?? model;
      const rename = served === model ? undefined : new ModelRename(served, model);
      await this.#relay({
        route,
        request,
        response,
        requestId,
        slot,
        endpoint,
        body: spliced(body, scanned, served),
        rename,
        isStream: scanned.isStream,
        began,
        timeouts: {
          firstByteMs: target.slot.spec.timeoutSeconds.firstByte * 1000,
          idleMs: target.slot.spec.timeoutSeconds.idle * 1000,
        },
      });
    } catch (error) {
      const failure = toApiError(error);
      if (failure.code === "system.internal") this.#options.log.error({ err: error, requestId }, "request failed");
      sendError(response, failure, requestId);
    }
    const metrics = this.#options.metrics.of(route.path, slot);
    const seconds = (performance.now() - began) / 1000;
    metrics.duration.observe(seconds);
    metrics.count(response.writableFinished || response.headersSent ? response.statusCode : 499);
    const { log } = this.#options;
    if (log.isLevelEnabled("info")) {
      log.info(
        { requestId, slot, status: response.statusCode, ms: Math.round(seconds * 1000) },
        `${route.path} ${slot} ${response.statusCode}`,
      );
    }
  }

  close(): void {
    for (const pool of this.#pools.values()) pool.close();
  }

  #pool({ host, port }: Endpoint): EnginePool {
    let pool = this.#pools.get(port);
    if (pool === undefined) {
      pool = new EnginePool(host, port);
      this.#pools.set(port, pool);
    }
    return pool;
  }

  #relay(call: Call): Promise<void> {
    return new Promise((resolve) => {
      const { traffic, metrics } = this.#options;
      const counted = traffic.begin(call.slot);
      const relay = new Relay(call, counted, metrics.of(call.route.path, call.slot).firstByte, () => {
        call.response.off("close", onClose);
        traffic.end(call.slot);
        resolve();
      });
      // The client left before the answer was whole: the engine must not go on for nobody.
      const onClose = (): void => {
        if (!call.response.writableFinished) relay.abort();
      };
      call.response.once("close", onClose);
      relay.start(this.#pool(call.endpoint).request(head(call), call.body, call.timeouts, relay));
    });
  }
}

interface Call {
  readonly route: V1Route;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly slot: string;
  readonly endpoint: Endpoint;
  readonly body: Buffer;
  readonly rename: ModelRename | undefined;
  readonly isStream: boolean;
  readonly began: number;
  readonly timeouts: { readonly firstByteMs: number; readonly idleMs: number };
}

function checkContentType(request: IncomingMessage): void {
  const type = request.headers["content-type"];
  // curl -d sends a form's type for what is JSON; OpenAI's own API takes it too.
  if (type === undefined || /^application\/(json|x-www-form-urlencoded)\b/i.test(type)) return;
  throw new ApiError("dispatch.unsupported_media_type", { message: "the body must be application/json" });
}

function readModel(body: Buffer): { scanned: ScannedBody; model: string } {
  const scanned = scanBody(body);
  if (scanned === undefined) throw new ApiError("dispatch.invalid_request", { message: whatIsWrong(body) });
  const { model } = scanned;
  if (model === undefined || model === "")
    throw new ApiError("dispatch.missing_model", { details: { path: ["model"] } });
  return { scanned, model };
}

function whatIsWrong(body: Buffer): string {
  if (body.length === 0) return "the body is empty";
  try {
    const parsed: unknown = JSON.parse(body.toString());
    return typeof parsed === "object" && parsed !== null
      ? "the body has the wrong shape"
      : "the body must be a JSON object";
  } catch {
    return "the body is not valid JSON";
  }
}

function spliced(body: Buffer, { model, modelStart, modelEnd }: ScannedBody, served: string): Buffer {
  if (model === served) return body;
  return Buffer.concat([body.subarray(0, modelStart), Buffer.from(JSON.stringify(served)), body.subarray(modelEnd)]);
}

/** Only what an engine needs: credentials, cookies and forwarding headers stay here. */
function head({ route, endpoint, body, requestId, isStream }: Call): string {
  return (
    `POST ${route.enginePath} HTTP/1.1\r\nhost: ${endpoint.host}:${endpoint.port}\r\ncontent-type: application/json\r\n` +
    `content-length: ${body.length}\r\nx-request-id: ${requestId}\r\naccept: ${isStream ? "text/event-stream" : "application/json"}\r\n\r\n`
  );
}

/** One answer on its way from the engine to the client. */
class Relay {
  readonly #call: Call;
  readonly #traffic: SlotTraffic;
  readonly #firstByte: { observe(seconds: number): void };
  readonly #onSettled: () => void;
  #exchange: Exchange | undefined;
  #mode: "head" | "whole" | "error" | "events" | "bytes" = "head";
  #status = 0;
  #headers: Record<string, string | number> = {};
  #chunks: Buffer[] = [];
  #size = 0;
  #events: EventStream | undefined;
  #isSettled = false;

  constructor(call: Call, traffic: SlotTraffic, firstByte: { observe(seconds: number): void }, onSettled: () => void) {
    this.#call = call;
    this.#traffic = traffic;
    this.#firstByte = firstByte;
    this.#onSettled = onSettled;
  }

  start(exchange: Exchange): void {
    this.#exchange = exchange;
    if (this.#isSettled) exchange.abort();
  }

  abort(): void {
    this.#exchange?.abort();
    this.#settle();
  }

  // Called without their object by the exchange.
  readonly onHead = (answer: ResponseHead): void => {
    const { call } = { call: this.#call };
    this.#traffic.lastByteAt = Date.now();
    this.#firstByte.observe((performance.now() - call.began) / 1000);
    this.#status = answer.status;
    const type = answer.headers.get("content-type") ?? "application/octet-stream";
    this.#headers = { "content-type": type, "x-request-id": call.requestId };
    if (answer.status >= 400) this.#mode = "error";
    else if (type.startsWith("text/event-stream")) {
      this.#mode = "events";
      this.#events = new EventStream({ rename: call.rename, isChat: call.route.isChat });
      this.#headers["cache-control"] = "no-cache";
      this.#headers["x-accel-buffering"] = "no";
      call.response.writeHead(answer.status, this.#headers);
    } else if (type.startsWith("application/json")) this.#mode = "whole";
    else {
      this.#mode = "bytes";
      const length = answer.headers.get("content-length");
      call.response.writeHead(
        answer.status,
        length === undefined ? this.#headers : { ...this.#headers, "content-length": length },
      );
    }
  };

  readonly onData = (chunk: Buffer): void => {
    if (this.#isSettled) return;
    this.#traffic.lastByteAt = Date.now();
    switch (this.#mode) {
      case "whole":
        this.#chunks.push(chunk);
        this.#size += chunk.length;
        if (this.#size > wholeLimitBytes) this.#giveUpWhole();
        return;
      case "error":
        if (this.#size < errorLimitBytes) this.#chunks.push(chunk);
        this.#size += chunk.length;
        return;
      case "events":
        this.#relayEvents(chunk);
        return;
      case "bytes":
        this.#write(chunk);
        return;
      case "head":
        return;
      default:
        this.#mode satisfies never;
    }
  };

  readonly onEnd = (): void => {
    const { response } = this.#call;
    switch (this.#mode) {
      case "whole": {
        const body = this.#renamed(this.#joined());
        response.writeHead(this.#status, { ...this.#headers, "content-length": body.length });
        response.end(body);
        break;
      }
      case "error":
        sendError(response, engineError(this.#status, this.#joined()), this.#call.requestId);
        break;
      case "events":
        if (this.#events?.isDone === false && this.#call.route.capability !== "embeddings") {
          this.#endWithError(
            new ApiError("dispatch.upstream_failed", { message: "the engine ended the stream early" }),
          );
          return;
        }
        response.end();
        break;
      case "bytes":
      case "head":
        response.end();
        break;
      default:
        this.#mode satisfies never;
    }
    this.#settle();
  };

  readonly onError = (error: ExchangeError): void => {
    if (this.#isSettled) return;
    const failure = exchangeFailure(error);
    const { response, requestId } = this.#call;
    if (this.#mode === "events") this.#endWithError(failure);
    else if (response.headersSent) {
      // What is no event stream cannot carry an error any more: it must not look whole.
      response.destroy();
      this.#settle();
    } else {
      sendError(response, failure, requestId);
      this.#settle();
    }
  };

  #relayEvents(chunk: Buffer): void {
    try {
      const bytes = this.#events?.push(chunk);
      if (bytes !== undefined) this.#write(bytes);
    } catch (error) {
      if (!(error instanceof StreamGarbage)) throw error;
      this.#exchange?.abort();
      this.#endWithError(
        new ApiError("dispatch.upstream_failed", { message: `the engine's answer is broken: ${error.message}` }),
      );
    }
  }

  /** One last event carries the envelope; no [DONE] follows. */
  #endWithError(failure: ApiError): void {
    this.#call.response.end(`data: ${JSON.stringify(failure.envelope())}\n\n`);
    this.#settle();
  }

  #write(bytes: Buffer): void {
    const { response } = this.#call;
    if (response.write(bytes) || response.writableLength < relayHighWaterBytes) return;
    this.#exchange?.pause();
    response.once("drain", () => this.#exchange?.resume());
  }

  #giveUpWhole(): void {
    const { response } = this.#call;
    response.writeHead(this.#status, this.#headers);
    this.#mode = "bytes";
    const begun = this.#renamed(this.#joined());
    this.#chunks = [];
    this.#write(begun);
  }

  #renamed(bytes: Buffer): Buffer {
    return this.#call.rename === undefined ? bytes : this.#call.rename.apply(bytes);
  }

  #joined(): Buffer {
    const [only] = this.#chunks;
    return this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#onSettled();
  }
}

function exchangeFailure({ phase, message }: ExchangeError): ApiError {
  switch (phase) {
    case "connect":
      return new ApiError("dispatch.upstream_unavailable", { message: "the engine does not accept connections" });
    case "timeout":
      return new ApiError("dispatch.upstream_timeout", { message: "the engine did not answer in time" });
    case "closed":
      return new ApiError("dispatch.upstream_failed", {
        message: "the engine closed the connection without an answer",
      });
    case "broken":
      return new ApiError("dispatch.upstream_failed", { message: `the engine's answer is broken: ${message}` });
    default:
      return phase satisfies never;
  }
}

/** The engine's own refusal in our envelope: its 4xx keeps status and message, its 5xx is a failure behind us. */
function engineError(status: number, body: Buffer): ApiError {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString());
  } catch {
    parsed = undefined;
  }
  const message = messageOf(parsed) ?? `the engine answered ${status}`;
  if (status >= 500)
    return new ApiError("dispatch.upstream_failed", { message: `the engine failed: ${message}`.slice(0, 500) });
  return new ApiError("dispatch.rejected", {
    status,
    message: message.slice(0, 2000),
    details: { upstream: parsed ?? null },
  });
}

function messageOf(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const inner: unknown = "error" in body ? body.error : body;
  if (typeof inner === "string") return inner;
  if (typeof inner !== "object" || inner === null || !("message" in inner)) return undefined;
  return typeof inner.message === "string" ? inner.message : undefined;
}
