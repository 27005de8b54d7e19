import { randomFillSync } from "node:crypto";
import type { PassedTrace } from "../../lib/exchange.ts";

/** https://www.w3.org/TR/trace-context/#traceparent-header: version, trace, span, flags. Later versions may have more. */
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const parentName = "traceparent: ";
const sampledFlag = 1;
/** The trace's identifier is random, as its maker says (level 2 of the standard). */
const randomFlag = 2;

/** The headers of a request, by their names in lower case. */
type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** The trace that a request belongs to, by the header of its client. */
export interface ClientTrace {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: number;
}

/** Undefined: the header is absent, or not as the standard allows. */
export function readTraceparent(header: string | string[] | undefined): ClientTrace | undefined {
  if (typeof header !== "string") return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = pattern.exec(header) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const known = version === "00" ? 0xff : sampledFlag;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) & known };
}

const stateChars = 512;

/**
 * Reads the header in which the makers of traces pass data on; it counts only beside a `traceparent`. Entries beyond
 * 512 characters are left out.
 */
export function readTracestate(header: string | string[] | undefined): string | undefined {
  if (typeof header !== "string" || header === "" || !/^[\t\x20-\x7e]*$/.test(header)) return undefined;
  if (header.length <= stateChars) return header;
  const end = header.lastIndexOf(",", stateChars);
  return end <= 0 ? undefined : header.slice(0, end);
}

/** The trace of one request: its headers are passed on to the engine or provider. */
export interface RequestTrace extends PassedTrace {
  readonly traceId: string;
  /** A receiver has spans of it, or will have. */
  readonly isSampled: boolean;
  /** Undefined: this gateway sends no span of its own, and passes the client's trace on. */
  readonly spans?: SpanIds;
}

/** The identifiers of this gateway's spans. */
export interface SpanIds {
  readonly traceId: string;
  readonly server: string;
  readonly engine: string;
  /** The client's span. */
  readonly parent: string | undefined;
}

/** The trace to pass on where this gateway sends no spans of its own. */
export function passedTrace(headers: Headers): RequestTrace | undefined {
  const client = readTraceparent(headers["traceparent"]);
  return client === undefined ? undefined : passed(client, headers);
}

function passed(client: ClientTrace, headers: Headers): RequestTrace {
  const { traceId, flags } = client;
  const isSampled = (flags & sampledFlag) !== 0;
  return { traceId, isSampled, ...withLines(traceparentOf(client), readTracestate(headers["tracestate"])) };
}

function withLines(traceparent: string, tracestate: string | undefined): PassedTrace {
  const stateLine = tracestate === undefined ? "" : `tracestate: ${tracestate}\r\n`;
  return { traceparent, tracestate, lines: `${parentName}${traceparent}\r\n${stateLine}` };
}

/** Which requests get spans. */
export interface Sampling {
  /** Decides about a request without a client's trace. */
  choose(): boolean;
  /** Decides about a request that its client has sampled. */
  chooseOfClient(): boolean;
}

/** A request's own spans, in its client's trace or in a new one. */
export function ownTrace(headers: Headers, sampling: Sampling): RequestTrace {
  const client = readTraceparent(headers["traceparent"]);
  if (client === undefined) return sampling.choose() ? withSpans(undefined, undefined) : unsampled.next();
  const isChosen = (client.flags & sampledFlag) !== 0 && sampling.chooseOfClient();
  return isChosen ? withSpans(client, readTracestate(headers["tracestate"])) : passed(client, headers);
}

function withSpans(client: ClientTrace | undefined, tracestate: string | undefined): RequestTrace {
  const traceId = client?.traceId ?? randomHex(16);
  const engine = randomHex(8);
  const flags = sampledFlag | ((client?.flags ?? 0) & randomFlag);
  return {
    traceId,
    isSampled: true,
    ...withLines(traceparentOf({ traceId, spanId: engine, flags }), tracestate),
    spans: { traceId, server: randomHex(8), engine, parent: client?.spanId },
  };
}

/** No receiver gets a span of it. It is passed on so that an engine with traces of its own does not begin one. */
class UnsampledTrace implements RequestTrace {
  readonly lines: string;
  readonly tracestate = undefined;
  readonly isSampled = false;

  constructor(lines: string) {
    this.lines = lines;
  }

  get traceparent(): string {
    return this.lines.slice(parentName.length, -"\r\n".length);
  }

  get traceId(): string {
    return this.traceparent.slice(3, 35);
  }
}

/** The low eight bits of each number in hexadecimal, as the end of a trace's identifier and the beginning of its span's. */
const lowPairs = Array.from({ length: 256 }, (_, low) => {
  const digits = low.toString(16).padStart(2, "0");
  return `${digits}-${digits}`;
});

/**
 * Traces without spans, which nearly every request has. Their identifiers are random texts with a number of 24 bits, which costs
 * less than random bytes; at the end of the numbers the texts are new.
 */
export class UnsampledTraces {
  #number: number;
  #random = { trace: "", span: "" };
  /** The line before and after the low bits of the number. */
  #before = "";
  #after = "";

  /** `first`: the first number. */
  constructor(first = 0) {
    this.#number = first;
  }

  next(): RequestTrace {
    const low = this.#number & 0xff;
    if (low === 0 || this.#before === "") this.#begin();
    this.#number = (this.#number + 1) & 0xffffff;
    return new UnsampledTrace(`${this.#before}${lowPairs[low]}${this.#after}`);
  }

  /** Makes the part that the next numbers share. */
  #begin(): void {
    if (this.#number === 0 || this.#before === "") this.#random = { trace: randomHex(13), span: randomHex(5) };
    const high = (this.#number >>> 8).toString(16).padStart(4, "0");
    this.#before = `${parentName}00-${this.#random.trace}${high}`;
    this.#after = `${high}${this.#random.span}-00\r\n`;
  }
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

const unsampled = new UnsampledTraces();

function traceparentOf({ traceId, spanId, flags }: ClientTrace): string {
  return `00-${traceId}-${spanId}-${flags < 16 ? "0" : ""}${flags.toString(16)}`;
}
