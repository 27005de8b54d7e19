import { randomFillSync } from "node:crypto";

/** https://www.w3.org/TR/trace-context/#traceparent-header: version, trace, span, flags. Later versions may have more. */
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** The trace that a request belongs to, by the header of its client. */
export interface ClientTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** Undefined: the header is absent, or not as the standard allows. */
export function readTraceparent(header: string | string[] | undefined): ClientTrace | undefined {
  if (typeof header !== "string") return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = pattern.exec(header) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** The trace of one request. */
export interface RequestTrace {
  readonly traceId: string;
  /** A receiver has spans of it, or will have. */
  readonly isSampled: boolean;
  /** Passed on to the engine or provider. */
  readonly traceparent: string;
  /** The spans of this gateway; undefined: it sends none, and passes the client's trace on. */
  readonly spans?: { readonly server: string; readonly engine: string; readonly parent: string | undefined };
}

/** The trace to pass on where this gateway sends no spans of its own. */
export function passedTrace(header: string | string[] | undefined): RequestTrace | undefined {
  const client = readTraceparent(header);
  return client === undefined ? undefined : passed(client);
}

function passed(client: ClientTrace): RequestTrace {
  const { traceId, isSampled } = client;
  return { traceId, isSampled, traceparent: traceparentOf(client) };
}

/** A request's own spans, in its client's trace or in a new one. `isChosen`: for a request without a client's trace. */
export function ownTrace(header: string | string[] | undefined, isChosen: () => boolean): RequestTrace {
  const client = readTraceparent(header);
  if (client?.isSampled === false) return passed(client);
  if (client === undefined && !isChosen()) return unsampled();
  const traceId = client?.traceId ?? randomHex(16);
  const engine = randomHex(8);
  return {
    traceId,
    isSampled: true,
    traceparent: traceparentOf({ traceId, spanId: engine, isSampled: true }),
    spans: { server: randomHex(8), engine, parent: client?.spanId },
  };
}

/** So many requests without a client's trace that are not sampled follow each other with the same identifiers. */
const sharedBy = 64;
let shared: RequestTrace | undefined;
let sharers = 0;

/** No receiver gets a span of it. It is passed on so that an engine with traces of its own does not begin one. */
function unsampled(): RequestTrace {
  if (shared === undefined || sharers === sharedBy) {
    const trace = { traceId: randomHex(16), isSampled: false };
    shared = { ...trace, traceparent: traceparentOf({ ...trace, spanId: randomHex(8) }) };
    sharers = 0;
  }
  sharers += 1;
  return shared;
}

/** Asked for in bulk: three small requests cost more than the rest of a trace. */
const pool = Buffer.alloc(4096);
let used = pool.length;

function randomHex(bytes: number): string {
  if (used + bytes > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += bytes;
  return pool.toString("hex", used - bytes, used);
}

function traceparentOf({ traceId, spanId, isSampled }: ClientTrace): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}
