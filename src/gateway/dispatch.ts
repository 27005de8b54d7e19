import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "pino";
import { ApiError } from "../api/errors.ts";
import type { SlotCapability } from "../api/names.ts";
import { EnginePool } from "../lib/http1/client.ts";
import { scanBody, type ScannedBody } from "../lib/json-scan.ts";
import { sendError, toApiError } from "./answer.ts";
import { readRequestBody } from "./body.ts";
import { invalidJson } from "./engine-failure.ts";
import type { ResolutionIndex } from "./index.ts";
import { noSlot, type GatewayMetrics } from "./metrics.ts";
import { endpointFor, type Endpoint } from "./readiness.ts";
import { Relay } from "./relay.ts";
import { ModelRename } from "./rename.ts";
import { resolve } from "./resolve.ts";
import type { PublishedOperator } from "../api/status.ts";
import type { Traffic } from "./traffic.ts";

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
      const rename = new ModelRename(served, model);
      await this.#relay({
        route,
        request,
        response,
        requestId,
        slot,
        endpoint,
        body: spliced(body, scanned, served),
        rename,
        sent: body,
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
      const firstByte = metrics.of(call.route.path, call.slot).firstByte;
      const relay = new Relay({
        response: call.response,
        requestId: call.requestId,
        rename: call.rename,
        isChat: call.route.isChat,
        body: call.sent,
        traffic: counted,
        onFirstByte: () => firstByte.observe((performance.now() - call.began) / 1000),
        onSettled: () => {
          call.response.off("close", onClose);
          traffic.end(call.slot);
          resolve();
        },
      });
      // The client left before the answer was whole: the engine must not go on for nobody.
      const onClose = (): void => {
        if (!call.response.writableFinished) relay.abort();
      };
      call.response.once("close", onClose);
      relay.start(this.#pool(call.endpoint).request(head(call), [call.body], call.timeouts, relay));
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
  readonly rename: ModelRename;
  /** What the client sent, before the model's name was replaced. */
  readonly sent: Buffer;
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
  if (scanned === undefined) throw invalidJson(body);
  const { model } = scanned;
  if (model === undefined || model === "")
    throw new ApiError("dispatch.missing_model", { details: { path: ["model"] } });
  return { scanned, model };
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
