import { steadyNow } from "../../lib/steady-clock.ts";
import { genAi, operationOf } from "./gen-ai.ts";
import { OtlpExporter, type LateSpans, type OtlpOptions } from "./otlp-exporter.ts";
import type { EndedRequest, EngineEndpoint } from "./request-record.ts";
import { ownTrace, type RequestTrace } from "./trace-context.ts";
import { TraceSampler } from "./trace-sampler.ts";

/** A request that has ended. */
export interface TracedRequest extends EndedRequest {
  readonly trace: RequestTrace;
}

/**
 * The gateway's spans, made when requests have ended: one for the request, and within it the hold, the queue and the engine's
 * call. This module is loaded only where traces have a receiver.
 */
export class Traces implements AsyncDisposable {
  readonly #exporter: OtlpExporter;
  readonly #sampler: TraceSampler;

  /** `part`: of requests whose client has not decided. */
  constructor(options: OtlpOptions & { readonly part: number }) {
    this.#exporter = new OtlpExporter(options);
    this.#sampler = new TraceSampler(options.part);
  }

  /** Of a request that was admitted. */
  begin(headers: Parameters<typeof ownTrace>[0]): RequestTrace {
    return ownTrace(headers, this.#sampler);
  }

  ended(request: TracedRequest): void {
    if (request.trace.spans !== undefined && this.#exporter.hasRoom)
      this.#exporter.add(new RequestSpans(request, steadyNow(), Date.now()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#exporter[Symbol.asyncDispose]();
  }
}

class RequestSpans implements LateSpans {
  readonly #request: TracedRequest;
  readonly #now: number;
  readonly #wallMs: number;

  constructor(request: TracedRequest, now: number, wallMs: number) {
    this.#request = request;
    this.#now = now;
    this.#wallMs = wallMs;
  }

  spans(): string[] {
    return spansOf(this.#request, this.#now, this.#wallMs);
  }
}

/** Of OTLP: the kinds of a span, and what its status may say. */
const kinds = { internal: 1, server: 2, client: 3 } as const;
const noStatus = '],"status":{"code":0}}';
const failedStatus = '],"status":{"code":2}}';

/** The texts of spans that requests of one kind have in common. */
interface KindTexts {
  readonly server: string;
  readonly client: string;
  readonly inner: string;
  /** Between the identifier of the request and its status. */
  readonly path: string;
}

/** Clients choose the names in them freely: at this number they are made again. */
const kindLimit = 256;
const kindTexts = new Map<string, KindTexts>();

/**
 * The spans of a request as OTLP has them in JSON, without brackets around them. They are text from the start, of few
 * pieces: objects, or many short texts, take V8 several times as long. `now` by the steady clock is `wallMs` by the wall
 * clock. https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */
export function spansOf(request: TracedRequest, now: number, wallMs: number): string[] {
  const { trace, requestId, code, seconds, failure, record } = request;
  const { spans: ids, traceId } = trace;
  if (ids === undefined) return [];
  const { engine, waitEndedAt, heldMs, queuedMs } = record;
  const { server, client, inner, path } = textsOf(request);
  const epochMs = wallMs - now;
  const span = (id: string, parent: string | undefined, from: number, to: number): string =>
    `{"traceId":"${traceId}","spanId":"${id}${parent === undefined ? "" : `","parentSpanId":"${parent}`}` +
    `","startTimeUnixNano":"${nanos(epochMs + from)}","endTimeUnixNano":"${nanos(epochMs + to)}",`;
  let counts = "";
  if (engine?.tokensIn !== undefined) counts += `,${count(genAi.inputTokens, engine.tokensIn)}`;
  if (engine?.tokensOut !== undefined) counts += `,${count(genAi.outputTokens, engine.tokensOut)}`;
  const error = failure?.code ?? (code === 499 ? "client_closed" : undefined);
  if (error !== undefined) counts += `,${text(genAi.errorType, error)}`;
  // A server did not fail where its client was at fault, and a client has failed with every error that it got:
  // https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status
  const isOurs = failure !== undefined && (failure.status >= 500 || code < 400);
  const own = `${counts},${text("berth.request_id", requestId)}${path}${code}"}}${isOurs ? failedStatus : noStatus}`;
  const spans = [`${span(ids.server, ids.parent, now - seconds * 1000, now)}${server}${own}`];
  const waitFrom = waitEndedAt - heldMs - queuedMs;
  const waited = (offset: number, name: string, from: number, to: number): void => {
    spans.push(`${span(offsetId(ids.server, offset), ids.server, from, to)}"name":"${name}",${inner}`);
  };
  if (heldMs > 0) waited(1, "berth.hold", waitFrom, waitFrom + heldMs);
  if (queuedMs > 0) waited(2, "berth.queue", waitFrom + heldMs, waitEndedAt);
  if (engine !== undefined) {
    const { startedAt, ms, endpoint } = engine;
    const rest = `${endpoint === undefined ? "" : addressOf(endpoint)}${counts}${failure === undefined ? noStatus : failedStatus}`;
    spans.push(`${span(ids.engine, ids.server, startedAt, startedAt + ms)}${client}${rest}`);
  }
  return spans;
}

function textsOf({ path, slot, record: { requestedModel, engine } }: TracedRequest): KindTexts {
  const key = `${path}\n${slot}\n${engine?.model}\n${requestedModel}`;
  const known = kindTexts.get(key);
  if (known !== undefined) return known;
  if (kindTexts.size >= kindLimit) kindTexts.clear();
  const operation = operationOf(path);
  const name = JSON.stringify(requestedModel === "" ? operation : `${operation} ${requestedModel}`);
  const provider = slot.startsWith("upstream ") ? slot.slice("upstream ".length) : "berth";
  const bySlot = text("berth.slot", slot);
  const common = [
    bySlot,
    text(genAi.operation, operation),
    text(genAi.provider, provider),
    ...(requestedModel === "" ? [] : [text(genAi.requestModel, requestedModel)]),
    ...(engine === undefined ? [] : [text(genAi.responseModel, engine.model)]),
  ].join(",");
  const texts = {
    server: flat(`"name":${name},"kind":${kinds.server},"attributes":[${common}`),
    client: flat(`"name":${name},"kind":${kinds.client},"attributes":[${common}`),
    inner: flat(`"kind":${kinds.internal},"attributes":[${bySlot}],"status":{"code":0}}`),
    path: flat(`,${text("url.path", path)},{"key":"http.response.status_code","value":{"intValue":"`),
  };
  kindTexts.set(key, texts);
  return texts;
}

const addresses = new WeakMap<EngineEndpoint, string>();

function addressOf(endpoint: EngineEndpoint): string {
  let address = addresses.get(endpoint);
  if (address === undefined) {
    const { host, port } = endpoint;
    address = flat(`,${text("server.address", host)},${count("server.port", port)}`);
    addresses.set(endpoint, address);
  }
  return address;
}

/** The same text in one piece. */
function flat(pieces: string): string {
  return Buffer.from(pieces).toString();
}

/** To the microsecond, as text: a number of JSON has no room for nanoseconds. */
function nanos(wallMs: number): string {
  return `${Math.round(wallMs * 1000)}000`;
}

/** Another id of the same trace, without asking for more random bytes. */
function offsetId(id: string, offset: number): string {
  return ((BigInt(`0x${id}`) + BigInt(offset)) & 0xffff_ffff_ffff_ffffn).toString(16).padStart(16, "0");
}

/** `key` has no character that JSON escapes. */
function text(key: string, value: string): string {
  return `{"key":"${key}","value":{"stringValue":${JSON.stringify(value)}}}`;
}

function count(key: string, value: number): string {
  return `{"key":"${key}","value":{"intValue":"${value}"}}`;
}
