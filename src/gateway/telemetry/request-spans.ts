import { genAi, operationOf } from "./gen-ai.ts";
import { escapedUnitBytes, numberBytes, putDigits, putNumber, putPart, putText } from "./line-bytes.ts";
import type { SpanWriter } from "./otlp-exporter.ts";
import { modelsAsKey, RequestKinds } from "./request-kinds.ts";
import type { EndedRequest, EngineEndpoint } from "./request-record.ts";
import type { SpanIds } from "./trace-context.ts";

/** The kinds of a span, as OTLP numbers them. */
const kinds = { internal: 1, server: 2, client: 3 } as const;

/**
 * The spans of a request: one for the request, and within it the hold, the queue and the engine's call, as OTLP has them in JSON.
 * https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
 */
export class RequestSpans implements SpanWriter {
  readonly #request: EndedRequest;
  readonly #ids: SpanIds;
  readonly #now: number;
  readonly #epochMs: number;
  readonly #kind: SpanKind;
  readonly #address: Buffer;
  readonly count: number;

  /** `now`: the end of the request by the steady clock. */
  constructor(request: EndedRequest, ids: SpanIds, now: number) {
    const { heldMs, queuedMs, engine } = request.record;
    this.#request = request;
    this.#ids = ids;
    this.#now = now;
    this.#epochMs = request.endedAt - now;
    this.#kind = spanKinds.of(request);
    this.#address = engine?.endpoint === undefined ? noBytes : addressOf(engine.endpoint);
    this.count = 1 + Number(heldMs > 0) + Number(queuedMs > 0) + Number(engine !== undefined);
  }

  get mostBytes(): number {
    return this.#kind.mostBytes + this.#address.length + this.#request.requestId.length * escapedUnitBytes;
  }

  put(memory: Buffer, at: number): number {
    const { requestId, code, seconds, failure, record } = this.#request;
    const { server, engine: engineId, parent } = this.#ids;
    const { engine, waitEndedAt, heldMs, queuedMs } = record;
    const { serverPart, clientPart, holdPart, queuePart, pathPart } = this.#kind;
    let end = this.#putBegin(memory, at, server, parent, this.#now - seconds * 1000, this.#now);
    end = this.#putCounts(memory, putPart(memory, end, serverPart));
    end = putText(memory, putPart(memory, end, requestIdPart), requestId);
    end = putNumber(memory, putPart(memory, end, pathPart), code);
    // A server did not fail where its client was at fault, and a client has failed with every error that it got:
    // https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status
    const isOurs = failure !== undefined && (failure.status >= 500 || code < 400);
    end = putPart(memory, end, isOurs ? codeFailedPart : codePart);
    const heldFrom = waitEndedAt - heldMs - queuedMs;
    const queuedFrom = heldFrom + heldMs;
    if (heldMs > 0) {
      end = this.#putBegin(memory, end, offsetId(server, 1), server, heldFrom, queuedFrom);
      end = putPart(memory, end, holdPart);
    }
    if (queuedMs > 0) {
      end = this.#putBegin(memory, end, offsetId(server, 2), server, queuedFrom, waitEndedAt);
      end = putPart(memory, end, queuePart);
    }
    if (engine === undefined) return end;
    end = this.#putBegin(memory, end, engineId, server, engine.startedAt, engine.startedAt + engine.ms);
    end = putPart(memory, putPart(memory, end, clientPart), this.#address);
    return putPart(memory, this.#putCounts(memory, end), failure === undefined ? endPart : endFailedPart);
  }

  /** Writes the identifiers and times of a span: milliseconds by the steady clock. */
  #putBegin(memory: Buffer, at: number, id: string, parent: string | undefined, from: number, to: number): number {
    let end = putText(memory, putPart(memory, at, beginPart), this.#ids.traceId);
    end = putText(memory, putPart(memory, end, idPart), id);
    if (parent !== undefined) end = putText(memory, putPart(memory, end, parentPart), parent);
    end = putNanos(memory, putPart(memory, end, fromPart), this.#epochMs + from);
    return putNanos(memory, putPart(memory, end, toPart), this.#epochMs + to);
  }

  /** Writes the tokens and the error, which spans of the request and of its engine have. */
  #putCounts(memory: Buffer, at: number): number {
    const { code, failure, record } = this.#request;
    const { tokensIn, tokensOut } = record.engine ?? {};
    let end = at;
    if (tokensIn !== undefined) end = putCount(memory, putPart(memory, end, tokensInPart), tokensIn);
    if (tokensOut !== undefined) end = putCount(memory, putPart(memory, end, tokensOutPart), tokensOut);
    const error = failure?.code ?? (code === 499 ? "client_closed" : undefined);
    if (error === undefined) return end;
    return putPart(memory, putText(memory, putPart(memory, end, errorPart), error), valueEndPart);
  }
}

const noBytes = Buffer.alloc(0);
const beginPart = Buffer.from('{"traceId":"');
const idPart = Buffer.from('","spanId":"');
const parentPart = Buffer.from('","parentSpanId":"');
const fromPart = Buffer.from('","startTimeUnixNano":"');
const toPart = Buffer.from('","endTimeUnixNano":"');
const requestIdPart = Buffer.from(begunText("berth.request_id"));
const tokensInPart = Buffer.from(begunCount(genAi.inputTokens));
const tokensOutPart = Buffer.from(begunCount(genAi.outputTokens));
const errorPart = Buffer.from(begunText(genAi.errorType));
const valueEndPart = Buffer.from('"}}');
const endPart = Buffer.from('],"status":{"code":0}},');
const endFailedPart = Buffer.from('],"status":{"code":2}},');
const codePart = Buffer.concat([valueEndPart, endPart]);
const codeFailedPart = Buffer.concat([valueEndPart, endFailedPart]);

/** The bytes of the longest code of an error. */
const errorBytes = 100;
/** The most bytes of a span without its kind, its request's id and its address. */
const spanBytes =
  [beginPart, idPart, parentPart, fromPart, toPart, requestIdPart, tokensInPart, tokensOutPart, errorPart]
    .concat(valueEndPart, valueEndPart, valueEndPart, codePart)
    .reduce((bytes, part) => bytes + part.length, 0) +
  // The identifiers, the times, the status, both counts.
  (32 + 16 + 16 + 5 * numberBytes) +
  errorBytes;
const mostSpans = 4;

/** The fields that requests of one kind share. */
interface KindFields {
  readonly path: string;
  readonly slot: string;
  readonly requestedModel: string;
  /** Undefined: no engine answered. */
  readonly model: string | undefined;
}

/** The bytes that their spans have in common. */
interface SpanKind extends KindFields {
  readonly serverPart: Buffer;
  readonly clientPart: Buffer;
  readonly holdPart: Buffer;
  readonly queuePart: Buffer;
  /** From the request's identifier to its status. */
  readonly pathPart: Buffer;
  /** The most bytes of all spans, without the request's identifier and the engine's address. */
  readonly mostBytes: number;
}

const spanKinds = new RequestKinds<SpanKind>({
  isOf: (kind, { path, slot, record: { requestedModel, engine } }) =>
    kind.path === path && kind.slot === slot && kind.requestedModel === requestedModel && kind.model === engine?.model,
  keyOf: ({ path, slot, record: { requestedModel, engine } }) =>
    `${path}\n${slot}\n${modelsAsKey(requestedModel, engine?.model)}`,
  make: ({ path, slot, record: { requestedModel, engine } }) =>
    newKind({ path, slot, requestedModel, model: engine?.model }),
});

function newKind(fields: KindFields): SpanKind {
  const { path, slot, requestedModel, model } = fields;
  const operation = operationOf(path);
  const name = JSON.stringify(requestedModel === "" ? operation : `${operation} ${requestedModel}`);
  const provider = slot.startsWith("upstream ") ? slot.slice("upstream ".length) : "berth";
  const bySlot = text("berth.slot", slot);
  const common = [
    bySlot,
    text(genAi.operation, operation),
    text(genAi.provider, provider),
    ...(requestedModel === "" ? [] : [text(genAi.requestModel, requestedModel)]),
    ...(model === undefined ? [] : [text(genAi.responseModel, model)]),
  ].join(",");
  const wait = (of: string): Buffer =>
    Buffer.from(`","name":"${of}","kind":${kinds.internal},"attributes":[${bySlot}${endPart.toString()}`);
  const parts = {
    serverPart: Buffer.from(`","name":${name},"kind":${kinds.server},"attributes":[${common}`),
    clientPart: Buffer.from(`","name":${name},"kind":${kinds.client},"attributes":[${common}`),
    holdPart: wait("berth.hold"),
    queuePart: wait("berth.queue"),
    pathPart: Buffer.from(`"}},${text("url.path", path)}${begunCount("http.response.status_code")}`),
  };
  const mostBytes = Object.values(parts).reduce((bytes, part) => bytes + part.length, mostSpans * spanBytes);
  return { ...fields, ...parts, mostBytes };
}

const addresses = new WeakMap<EngineEndpoint, Buffer>();

function addressOf(endpoint: EngineEndpoint): Buffer {
  let address = addresses.get(endpoint);
  if (address === undefined) {
    const { host, port } = endpoint;
    address = Buffer.from(`,${text("server.address", host)}${begunCount("server.port")}${port}"}}`);
    addresses.set(endpoint, address);
  }
  return address;
}

/** Writes a time to the microsecond, as a text of nanoseconds: a number of JSON has no room for them. */
function putNanos(memory: Buffer, at: number, wallMs: number): number {
  const micros = Math.round(wallMs * 1000);
  const seconds = Math.trunc(micros / 1e6);
  let end = at;
  // A clock that was never set shows a time soon after 1970.
  if (seconds < 1e9 || seconds >= 1e10) end = putNumber(memory, at, micros);
  else {
    putDigits(memory, at, seconds, 10);
    putDigits(memory, at + 10, micros - seconds * 1e6, 6);
    end += 16;
  }
  putDigits(memory, end, 0, 3);
  return end + 3;
}

function putCount(memory: Buffer, at: number, value: number): number {
  return putPart(memory, putNumber(memory, at, value), valueEndPart);
}

/** Another id of the same trace, without asking for more random bytes. */
function offsetId(id: string, offset: number): string {
  return ((BigInt(`0x${id}`) + BigInt(offset)) & 0xffff_ffff_ffff_ffffn).toString(16).padStart(16, "0");
}

/** `key` has no character that JSON escapes. */
function text(key: string, value: string): string {
  return `{"key":"${key}","value":{"stringValue":${JSON.stringify(value)}}}`;
}

/** A further attribute, up to its text. */
function begunText(key: string): string {
  return `,{"key":"${key}","value":{"stringValue":"`;
}

/** A further attribute, up to its number. */
function begunCount(key: string): string {
  return `,{"key":"${key}","value":{"intValue":"`;
}
