import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import type { ApiError } from "../../api/errors.ts";
import { ExchangeError, type Exchange, type ExchangeEvents, type Timeouts } from "../../lib/http1/client.ts";
import { isShortage } from "../../lib/error-code.ts";
import { longestTimerMs } from "../../lib/longest-timer.ts";
import type { Endpoint } from "../admission/availability.ts";
import { toApiError } from "../answer.ts";
import type { ForwardedUpload } from "./transcription.ts";

export interface UploadCall {
  readonly endpoint: Pick<Endpoint, "host" | "port" | "bearer">;
  readonly path: string;
  readonly requestId: string;
  readonly timeouts: Timeouts;
  /** Called once the engine takes the connection, and never before: until then nothing is used up. */
  forward(): ForwardedUpload;
}

/** Also a broken upload ends an exchange, with the ApiError that its body erred with. */
interface UploadEvents extends Omit<ExchangeEvents, "onError"> {
  onError(error: ExchangeError | ApiError): void;
}

const connectTimeoutMs = 5000;

/**
 * Sends an upload as it comes, and tells of the answer as `EnginePool` does. A connection of its own: an upload cannot
 * be sent twice, so it must not meet a kept-alive one that is dead. `timeouts.idleMs` also bounds how long the upload
 * may stand still.
 */
export function sendUpload(call: UploadCall, events: UploadEvents): Exchange {
  return new UploadExchange(call, events);
}

class UploadExchange implements Exchange {
  readonly #call: UploadCall;
  readonly #events: UploadEvents;
  readonly #socket: ReturnType<typeof connect>;
  #request: ClientRequest | undefined;
  #response: IncomingMessage | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(call: UploadCall, events: UploadEvents) {
    this.#call = call;
    this.#events = events;
    this.#socket = connect({ host: call.endpoint.host, port: call.endpoint.port, noDelay: true });
    this.#arm(connectTimeoutMs, "connect");
    this.#socket.once("connect", () => this.#send());
    this.#socket.on("error", (error) => {
      const isOurs = this.#request === undefined && isShortage(error);
      this.#fail(new ExchangeError(isOurs ? "shortage" : this.#phase(), error.message));
    });
  }

  pause(): void {
    this.#response?.pause();
    // Waiting for a slow reader is not the engine's silence.
    clearTimeout(this.#timer);
  }

  resume(): void {
    if (this.#isOver) return;
    this.#response?.resume();
    this.#arm(this.#call.timeouts.idleMs, "timeout");
  }

  abort(): void {
    this.#isOver = true;
    this.#release();
  }

  #send(): void {
    if (this.#isOver) return;
    const { endpoint, path, requestId, timeouts } = this.#call;
    const { host, port, bearer } = endpoint;
    const { headers, body } = this.#call.forward();
    const request = httpRequest({
      method: "POST",
      host,
      port,
      path,
      headers: {
        ...headers,
        "x-request-id": requestId,
        accept: "*/*",
        connection: "close",
        ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
      },
      createConnection: () => this.#socket,
    });
    this.#request = request;
    request.on("error", (error) => this.#fail(new ExchangeError(this.#phase(), error.message)));
    request.once("response", (response) => this.#answer(response));
    this.#arm(timeouts.idleMs, "timeout");
    this.#pump(request, body).catch((error: unknown) => this.#fail(toApiError(error)));
  }

  /** One chunk after the other: the next is asked for when the system has taken the last. */
  async #pump(request: ClientRequest, body: AsyncIterable<Buffer>): Promise<void> {
    const { idleMs, firstByteMs } = this.#call.timeouts;
    for await (const chunk of body) {
      await new Promise<void>((resolve) => {
        request.write(chunk, () => resolve());
      });
      // Also where the engine answers before it has read all: the rest is nobody's.
      if (this.#isOver || request.destroyed) return;
      if (this.#response === undefined) this.#arm(idleMs, "timeout");
    }
    request.end();
    if (this.#response === undefined) this.#arm(firstByteMs, "timeout");
  }

  #answer(response: IncomingMessage): void {
    if (this.#isOver) return;
    const { idleMs } = this.#call.timeouts;
    this.#response = response;
    this.#arm(idleMs, "timeout");
    response.on("data", (chunk: Buffer) => {
      if (this.#isOver) return;
      if (!response.isPaused()) this.#arm(idleMs, "timeout");
      this.#events.onData(chunk);
    });
    response.once("end", () => {
      if (this.#isOver) return;
      this.#isOver = true;
      this.#release();
      this.#events.onEnd();
    });
    response.on("error", (error) => this.#fail(new ExchangeError("broken", error.message)));
    const { "content-type": type, "content-length": contentLength } = response.headers;
    // whisper.cpp calls a plain transcript HTML, which nobody may render.
    const contentType = type?.startsWith("text/html") === true ? "text/plain; charset=utf-8" : type;
    this.#events.onHead({ status: response.statusCode ?? 0, contentType, contentLength, isKeptAlive: false });
  }

  #fail(error: ExchangeError | ApiError): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#release();
    this.#events.onError(error);
  }

  #phase(): ExchangeError["phase"] {
    if (this.#request === undefined) return "connect";
    return this.#response === undefined ? "closed" : "broken";
  }

  #arm(ms: number, phase: "connect" | "timeout"): void {
    clearTimeout(this.#timer);
    if (ms === 0) return;
    const message = phase === "connect" ? "no connection in time" : "no byte in time";
    this.#timer = setTimeout(() => this.#fail(new ExchangeError(phase, message)), Math.min(ms, longestTimerMs));
    this.#timer.unref();
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#request?.destroy();
    this.#socket.destroy();
  }
}
