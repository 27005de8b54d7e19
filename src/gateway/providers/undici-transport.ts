import { Readable } from "node:stream";
import type { Dispatcher } from "undici";
import { ApiError } from "../../api/errors.ts";
import { errorCode, isShortage } from "../../lib/error-code.ts";
import {
  ExchangeError,
  type Exchange,
  type ExchangeEvents,
  type ExchangeRequest,
  type SendOptions,
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
    const sent = bodyOf(request, exchange, timeouts.idleMs);
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

  /** For the request's body, which failed. */
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
function bodyOf({ body, contentType = "application/json" }: ExchangeRequest, to: UndiciExchange, ms: number): SentBody {
  if (body === undefined) return { headers: {}, body: null };
  if (typeof body !== "function") {
    const [only] = body;
    let length = 0;
    for (const part of body) length += part.length;
    return {
      headers: { "content-type": contentType, "content-length": String(length) },
      body: body.length === 1 && only !== undefined ? only : Readable.from(body),
    };
  }
  const upload = body();
  const { "content-type": type, "content-length": length } = upload.headers;
  return {
    headers: { "content-type": type, ...(length !== undefined && { "content-length": String(length) }) },
    body: Readable.from(chunks(upload.body, to, ms), { highWaterMark: 1 }),
  };
}

/** Fails the exchange where no chunk comes for `idleTimeoutMs` while one is wanted, and where the upload itself fails. */
async function* chunks(body: AsyncIterable<Buffer>, to: UndiciExchange, idleTimeoutMs: number): AsyncGenerator<Buffer> {
  const onIdle = (): void => {
    to.fail(new ApiError("dispatch.invalid_request", { message: "the upload stood still for too long" }));
  };
  let timer = setTimeout(onIdle, idleTimeoutMs);
  try {
    for await (const chunk of body) {
      clearTimeout(timer);
      // undici keeps what the system has not taken yet.
      yield Buffer.from(chunk);
      timer = setTimeout(onIdle, idleTimeoutMs);
    }
  } catch (error) {
    to.fail(error instanceof Error ? error : new Error(String(error)));
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
