import type { ServerResponse } from "node:http";
import { ApiError, type ErrorCode } from "../api/errors.ts";
import type { Exchange, ExchangeError, ExchangeEvents } from "../lib/http1/client.ts";
import type { ResponseHead } from "../lib/http1/response-parser.ts";
import { sendError } from "./answer.ts";
import { engineEventFailure, engineRefusal, exchangeFailure } from "./engine-failure.ts";
import { EventStream, StreamGarbage } from "./event-stream.ts";
import type { ModelRename } from "./rename.ts";
import type { SlotTraffic } from "./traffic.ts";

/** More of an engine's error than this helps nobody. */
const errorLimitBytes = 65_536;
/** A JSON answer is small; a larger one is relayed without waiting for its end. */
const wholeLimitBytes = 8 * 1024 * 1024;
/** How much may wait for a slow reader before the engine is paused. */
const relayHighWaterBytes = 65_536;

export interface RelayOptions {
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly rename: ModelRename;
  /** Its stream begins with the delta that carries the role. */
  readonly isChat: boolean;
  /** The client's body: when an engine refuses it, whether it was JSON at all decides whose fault that is. */
  readonly body: Buffer;
  readonly traffic: SlotTraffic;
  readonly onFirstByte: () => void;
  /** The engine is done with it, one way or the other. Called once. */
  readonly onSettled: () => void;
}

type Mode = "head" | "whole" | "error" | "events" | "bytes";

/**
 * One answer on its way from the engine to the client.
 *
 *   head ─┬─ 2xx event stream ─▶ events   line by line as it comes; a failure is one last event
 *         ├─ 2xx JSON ─────────▶ whole    kept until its end, so that a failure can still be told; large: bytes
 *         ├─ 2xx other ────────▶ bytes    as it comes; a failure destroys the connection
 *         └─ other status ─────▶ error    becomes our envelope
 */
export class Relay implements ExchangeEvents {
  readonly #options: RelayOptions;
  #body: Buffer | undefined;
  #exchange: Exchange | undefined;
  #mode: Mode = "head";
  #status = 0;
  #headers: Record<string, string | number> = {};
  #chunks: Buffer[] = [];
  #size = 0;
  #events: EventStream | undefined;
  #isSettled = false;
  #isPaused = false;
  readonly #onDrain = (): void => {
    this.#isPaused = false;
    this.#exchange?.resume();
  };
  /** Why the client did not get a whole answer, where that is known. */
  failure: ErrorCode | undefined;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#body = options.body;
  }

  start(exchange: Exchange): void {
    this.#exchange = exchange;
  }

  /** The client left: the engine must not go on for nobody. Nothing when all is over. */
  abort(): void {
    if (this.#isSettled) return;
    this.#exchange?.abort();
    this.#settle();
  }

  onHead(answer: ResponseHead): void {
    const { response, requestId, traffic, onFirstByte, rename, isChat } = this.#options;
    traffic.lastByteAt = Date.now();
    onFirstByte();
    this.#status = answer.status;
    if (answer.status >= 300) {
      this.#mode = "error";
      return;
    }
    this.#body = undefined;
    const type = answer.headers.get("content-type") ?? "application/octet-stream";
    this.#headers = { "content-type": type, "x-request-id": requestId, "x-content-type-options": "nosniff" };
    if (type.startsWith("text/event-stream")) {
      this.#mode = "events";
      this.#events = new EventStream({ rename, isChat });
      this.#headers["cache-control"] = "no-cache";
      this.#headers["x-accel-buffering"] = "no";
      response.writeHead(answer.status, this.#headers);
    } else if (type.startsWith("application/json")) this.#mode = "whole";
    else {
      this.#mode = "bytes";
      const length = answer.headers.get("content-length");
      if (length !== undefined) this.#headers["content-length"] = length;
      response.writeHead(answer.status, this.#headers);
    }
  }

  onData(chunk: Buffer): void {
    if (this.#isSettled) return;
    this.#options.traffic.lastByteAt = Date.now();
    switch (this.#mode) {
      case "whole":
        this.#chunks.push(chunk);
        this.#size += chunk.length;
        if (this.#size > wholeLimitBytes) this.#giveUpWhole();
        return;
      case "error":
        if (this.#size < errorLimitBytes) this.#chunks.push(chunk);
        this.#size += chunk.length;
        return;
      case "events":
        this.#relayEvents(chunk);
        return;
      case "bytes":
        this.#write(chunk);
        return;
      case "head":
        return;
      default:
        this.#mode satisfies never;
    }
  }

  onEnd(): void {
    if (this.#isSettled) return;
    const { response } = this.#options;
    switch (this.#mode) {
      case "whole": {
        const body = this.#options.rename.whole(this.#joined());
        this.#headers["content-length"] = body.length;
        response.writeHead(this.#status, this.#headers);
        response.end(body);
        break;
      }
      case "error":
        this.#refuse(engineRefusal(this.#status, this.#joined(), this.#body));
        break;
      case "events":
        if (this.#events?.isWhole === false) {
          this.#endWithError(
            new ApiError("dispatch.upstream_failed", { message: "the engine ended the stream early" }),
          );
          return;
        }
        response.end();
        break;
      case "bytes":
      case "head":
        response.end();
        break;
      default:
        this.#mode satisfies never;
    }
    this.#settle();
  }

  onError(error: ExchangeError): void {
    if (this.#isSettled) return;
    const failure = exchangeFailure(error);
    if (this.#mode === "events") {
      this.#endWithError(failure);
      return;
    }
    if (this.#options.response.headersSent) {
      // What is no event stream cannot carry an error any more: it must not look whole.
      this.failure = failure.code;
      this.#options.response.destroy();
    } else this.#refuse(failure);
    this.#settle();
  }

  #refuse(failure: ApiError): void {
    this.failure = failure.code;
    sendError(this.#options.response, failure, this.#options.requestId);
  }

  #relayEvents(chunk: Buffer): void {
    const events = this.#events;
    if (events === undefined) return;
    let failure: ApiError | undefined;
    try {
      const bytes = events.push(chunk);
      if (bytes !== undefined) this.#write(bytes);
      if (events.error !== undefined) failure = engineEventFailure(events.error);
    } catch (error) {
      if (!(error instanceof StreamGarbage)) throw error;
      failure = new ApiError("dispatch.upstream_failed", {
        message: `the engine's answer is broken: ${error.message}`,
      });
    }
    if (failure === undefined) return;
    this.#exchange?.abort();
    this.#endWithError(failure);
  }

  /** One last event carries the envelope; no [DONE] follows. A stream that was whole already just ends. */
  #endWithError(failure: ApiError): void {
    const { response } = this.#options;
    if (this.#events?.isDone === true) response.end();
    else {
      this.failure = failure.code;
      response.end(`data: ${JSON.stringify(failure.envelope())}\n\n`);
    }
    this.#settle();
  }

  #write(bytes: Buffer): void {
    const { response } = this.#options;
    if (response.write(bytes) || this.#isPaused || response.writableLength < relayHighWaterBytes) return;
    this.#isPaused = true;
    this.#exchange?.pause();
    response.once("drain", this.#onDrain);
  }

  #giveUpWhole(): void {
    this.#options.response.writeHead(this.#status, this.#headers);
    this.#mode = "bytes";
    const begun = this.#options.rename.whole(this.#joined());
    this.#chunks = [];
    this.#write(begun);
  }

  #joined(): Buffer {
    const [only] = this.#chunks;
    return this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
  }

  #settle(): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#body = undefined;
    this.#options.onSettled();
  }
}
