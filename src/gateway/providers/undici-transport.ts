import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { errorCode, isShortage } from "../../lib/error-code.ts";
import {
  ExchangeError,
  sizeOf,
  type Exchange,
  type ExchangeEvents,
  type ExchangeRequest,
  type SendOptions,
  type StoredBody,
  type Transport,
} from "../../lib/exchange.ts";

export interface UndiciTransportOptions {
  readonly client: Dispatcher;
  /** The path at the provider, with the query that its base address has. */
  readonly address: (path: string) => string;
  /** Headers of every request: ours, the upstream's, and the key. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Requests to a provider: TLS, redirects to nowhere, kept-alive connections and HTTP parsing are undici's. */
export class UndiciTransport implements Transport {
  readonly #options: UndiciTransportOptions;

  constructor(options: UndiciTransportOptions) {
    this.#options = options;
  }

  send(request: ExchangeRequest, { requestId, trace, timeouts }: SendOptions, events: ExchangeEvents): Exchange {
    const { client, address, headers } = this.#options;
    const exchange = new UndiciExchange(events);
    const sent = bodyOf(request, (error) => exchange.fail(error));
    client.dispatch(
      {
        method: request.method,
        path: address(request.path),
        headers: {
          ...headers,
          ...sent.headers,
          accept: request.accept,
          ...(requestId === undefined ? {} : { "x-request-id": requestId }),
          ...(trace !== undefined && { traceparent: trace.traceparent }),
          ...(trace?.tracestate !== undefined && { tracestate: trace.tracestate }),
        },
        body: sent.body,
        headersTimeout: timeouts.firstByteMs,
        bodyTimeout: timeouts.idleMs,
      },
      exchange,
    );
    return exchange;
  }
}

/** One request under way. Events end with `abort`, as of every exchange. */
class UndiciExchange implements Exchange, Dispatcher.DispatchHandler {
  /** Undefined once the exchange has ended. */
  #events: ExchangeEvents | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  /** The phase of the exchange, which names the kind of a failure. */
  #phase: "connect" | "closed" | "broken" = "connect";
  #isPaused = false;

  constructor(events: ExchangeEvents) {
    this.#events = events;
  }

  pause(): void {
    this.#isPaused = true;
    if (this.#phase === "broken") this.#controller?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    if (this.#phase === "broken") this.#controller?.resume();
  }

  abort(): void {
    if (this.#events === undefined) return;
    this.#events = undefined;
    this.#controller?.abort(new Error("the exchange was aborted"));
  }

  /** The request's body cannot be read. */
  fail(error: Error): void {
    const events = this.#events;
    this.abort();
    events?.onError(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#events === undefined) {
      controller.abort(new Error("the exchange was aborted"));
      return;
    }
    this.#controller = controller;
    this.#phase = "closed";
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    // 100 and 103 only announce the answer.
    if (this.#events === undefined || status < 200) return;
    this.#phase = "broken";
    if (this.#isPaused) controller.pause();
    this.#events.onHead({
      status,
      contentType: one(headers["content-type"]),
      contentLength: one(headers["content-length"]),
      retryAfter: one(headers["retry-after"]),
      contentEncoding: String(headers["content-encoding"] ?? "identity"),
      isKeptAlive: true,
    });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#events?.onData(chunk);
  }

  onResponseEnd(): void {
    const events = this.#events;
    this.#events = undefined;
    events?.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const events = this.#events;
    this.#events = undefined;
    events?.onError(new ExchangeError(this.#phaseOf(error), error.message, { cause: error }));
  }

  #phaseOf(error: Error): ExchangeError["phase"] {
    const code = errorCode(error);
    if (code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT") return "timeout";
    return this.#phase === "connect" && isShortage(error) ? "shortage" : this.#phase;
  }
}

/** The value of a header that occurs once; undefined: absent or repeated. */
function one(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

interface SentBody {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | Readable | null;
}

/** As undici takes it. */
function bodyOf(
  { body, contentType = "application/json" }: ExchangeRequest,
  onError: (error: Error) => void,
): SentBody {
  if (body === undefined) return { headers: {}, body: null };
  const headers = { "content-type": contentType, "content-length": String(sizeOf(body)) };
  if ("read" in body) return { headers, body: Readable.from(reading(body, onError), { objectMode: false }) };
  const [only] = body;
  return { headers, body: body.length === 1 && only !== undefined ? only : Readable.from(body) };
}

/** undici would report an error of the body as one of the provider. */
async function* reading(body: StoredBody, onError: (error: Error) => void): AsyncGenerator<Buffer> {
  try {
    yield* body.read();
  } catch (error) {
    onError(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
}
