/** One request and its answer, whoever carries them: `engine-client/client.ts` to engines, undici to providers. */
export interface Exchange {
  /** Reads no more until `resume`, so that the other end feels the backpressure. */
  pause(): void;
  resume(): void;
  /** Drops the connection; no event follows. */
  abort(): void;
  /** The kernel has all bytes of the request: nothing here reads its body any more. Absent: unknown. */
  readonly isSent?: boolean;
}

/** The start of an answer. */
export interface ResponseHead {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly contentLength: string | undefined;
  /** The connection may carry another request afterwards. */
  readonly isKeptAlive: boolean;
  /** From a provider alone. */
  readonly retryAfter?: string | undefined;
  readonly contentEncoding?: string | undefined;
}

/** The events of an exchange, in this order; no event comes while the exchange is being started. */
export interface ExchangeEvents {
  onHead(head: ResponseHead): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  /**
   * Exactly one of `onEnd` and `onError` is called, once. The error is an ExchangeError, or the error of reading a
   * stored body or of what has to be done before and after the exchange.
   */
  onError(error: Error): void;
}

/** Why there is no (complete) answer. */
export class ExchangeError extends Error {
  override readonly name = "ExchangeError";
  /**
   * `connect`: nothing was sent. `shortage`: nothing was sent, since this process may open no more connections.
   * `closed`: the connection ended before any byte of an answer. `broken`: the connection ended within the answer, or
   * the answer is garbage.
   */
  readonly phase: "connect" | "shortage" | "closed" | "broken" | "timeout";

  constructor(phase: ExchangeError["phase"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.phase = phase;
  }
}

/** A body on disk. */
export interface StoredBody {
  readonly sizeBytes: number;
  /** Reads all of it, for each attempt anew. A chunk belongs to its reader. */
  read(): AsyncIterable<Buffer>;
}

/** A body may be sent again. */
export type RequestBody = readonly Buffer[] | StoredBody;

export function sizeOf(body: RequestBody): number {
  if ("read" in body) return body.sizeBytes;
  let size = 0;
  for (const part of body) size += part.length;
  return size;
}

/** A request without what its transport adds: host, credentials, lengths. */
export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly accept: string;
  /** The type of the body; absent: JSON. */
  readonly contentType?: string;
  readonly body?: RequestBody | undefined;
}

export interface Timeouts {
  /** Milliseconds until the first byte of the answer; 0: no limit. */
  readonly firstByteMs: number;
  /** Milliseconds without a byte of the answer after its first; 0: no limit. */
  readonly idleMs: number;
}

/** The headers of W3C Trace Context. */
export interface PassedTrace {
  readonly traceparent: string;
  readonly tracestate: string | undefined;
  /** Both, as lines of a request's head. */
  readonly lines: string;
}

export interface SendOptions {
  readonly timeouts: Timeouts;
  readonly requestId?: string | undefined;
  readonly trace?: PassedTrace | undefined;
  /** The request must not be sent twice: it gets a connection of its own, which no earlier request has used. */
  readonly isOnce?: boolean;
}

/** Where requests are sent. */
export interface Transport {
  send(request: ExchangeRequest, options: SendOptions, events: ExchangeEvents): Exchange;
}
