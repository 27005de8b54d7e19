import type { PassedTrace } from "../../lib/exchange.ts";
import type { EndedRequest } from "./request-record.ts";

/** https://www.w3.org/TR/trace-context/#traceparent-header: version, trace, span, flags. Later versions may have more. */
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const sampledFlag = 1;

/** The headers of a request, by their names in lower case. */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

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
export interface RequestTrace {
  readonly traceId: string;
  /** A receiver has spans of it, or will have. */
  readonly isSampled: boolean;
  /** The headers of one attempt, whose span begins here where this gateway sends spans. */
  forAttempt(): PassedTrace;
  /** The attempt has failed; another one may follow. Absent: this gateway sends no span of its own. */
  attemptEnded?(): void;
  /** The request has ended. Absent: this gateway sends no span of its own. */
  ended?(request: EndedRequest): void;
}

/** The trace to pass on where this gateway sends no spans of its own. */
export function passedTrace(headers: Headers): RequestTrace | undefined {
  const client = readTraceparent(headers["traceparent"]);
  return client === undefined ? undefined : passed(client, headers);
}

/** A client's trace as it is. */
export function passed({ traceId, spanId, flags }: ClientTrace, headers: Headers): RequestTrace {
  const traceparent = `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, "0")}`;
  const lines = withLines(traceparent, readTracestate(headers["tracestate"]));
  return { traceId, isSampled: (flags & sampledFlag) !== 0, forAttempt: () => lines };
}

export function withLines(traceparent: string, tracestate: string | undefined): PassedTrace {
  const stateLine = tracestate === undefined ? "" : `tracestate: ${tracestate}\r\n`;
  return { traceparent, tracestate, lines: `traceparent: ${traceparent}\r\n${stateLine}` };
}
