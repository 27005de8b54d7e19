import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { ApiError } from "../../api/errors.ts";
import { atEndOfTurn, type Flushable } from "../../lib/end-of-turn.ts";
import type { BufferBudget } from "../slots/budget.ts";
import { sendError } from "../http/answer.ts";
import { plainErrors, type ErrorForm } from "../http/error-form.ts";
import { endsWithBlankLine, eventsIn } from "./event-stream.ts";

/** The target of a relayed answer: one client, or all readers of a shared stream. */
export interface AnswerSink {
  /** The client has received a status. */
  readonly hasBegun: boolean;
  begin(status: number, headers: AnswerHeaders): void;
  /** False when the caller should wait for `onDrain`. */
  write(bytes: Buffer): boolean;
  onDrain(listener: () => void): void;
  end(bytes?: Buffer): void;
  /**
   * Ends with the failure, in the form that is still possible: envelope, last event, or a cut connection. `events`
   * report it within a stream; absent: the route's own.
   */
  refuse(failure: ApiError, events?: string): void;
}

/** The headers of an engine's answer; those of every answer are added. */
export interface AnswerHeaders {
  readonly "content-type": string;
  readonly "content-length"?: number | string | undefined;
}

/** The log of failures, with details that no client may see. */
interface FailureLog {
  failed(failure: ApiError, requestId: string): void;
}

interface AnswerOptions {
  readonly log?: FailureLog;
  /** Counts an answer that is sent in one piece until the client has read it. */
  readonly budget?: BufferBudget;
  /** After which a client that takes nothing is disconnected. */
  readonly stallMs?: number;
}

/** The buffer for a slow reader before the engine is paused. */
const highWaterBytes = 65_536;
/**
 * A client that takes none of its bytes for so long is disconnected: it would keep its place at the engine, or memory, for as
 * long as it likes. Longer than nginx's send_timeout of a minute: the kernel takes bytes for a slow reader in large steps.
 */
const stallMs = 300_000;
/** Up to this size one copy costs less than a write in parts. */
const copiedBytes = 16_384;

/** The answer to one client. No other object writes to its response. */
export class Answer implements AnswerSink, Flushable {
  readonly #response: ServerResponse;
  readonly #requestId: string;
  readonly #errors: ErrorForm;
  readonly #options: AnswerOptions;
  #isStream = false;
  #isAnswered = false;
  #isEnded = false;
  /** The body of the answer is sent in chunks, which are framed here. */
  #isChunked = false;
  /** The last event of the stream lacks its blank line. */
  #isWithinEvent = false;
  /** The number of sent events, where they are numbered. */
  #sequence = 0;
  /** The bytes to send at the end of the turn. */
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #willFlush = false;
  #onDrain: (() => void) | undefined;
  /** Why the client did not get a complete answer. */
  failure: ApiError | undefined;

  constructor(
    response: ServerResponse,
    requestId: string,
    errors: ErrorForm = plainErrors,
    options: AnswerOptions = {},
  ) {
    this.#response = response;
    this.#requestId = requestId;
    this.#errors = errors;
    this.#options = options;
  }

  get hasBegun(): boolean {
    return this.#response.headersSent;
  }

  /** The engine's answer has begun; comments of a wait do not count. */
  get isAnswered(): boolean {
    return this.#isAnswered;
  }

  /** The client is gone, or has its whole answer. */
  get isOver(): boolean {
    return this.#isEnded || this.#response.destroyed;
  }

  /** Begins the stream of a waiting client, so that neither the client nor a proxy times out. */
  beginEarly(): void {
    if (this.hasBegun || this.isOver) return;
    this.#writeHead(200, { "content-type": "text/event-stream" });
    this.#response.flushHeaders();
  }

  /** A line that every reader of event streams skips. */
  comment(text: string): void {
    if (!this.#isStream || this.isOver) return;
    const bytes = Buffer.from(`: ${text}\n\n`);
    this.#response.write(this.#framed([bytes], bytes.length));
  }

  begin(status: number, headers: AnswerHeaders): void {
    const { hasBegun } = this;
    if (hasBegun && !isEventStream(headers["content-type"])) throw new NotAStream();
    this.#isAnswered = true;
    if (!hasBegun) this.#writeHead(status, headers);
  }

  #writeHead(status: number, headers: AnswerHeaders): void {
    this.#isStream = isEventStream(headers["content-type"]);
    // A list costs Node less than an object.
    const list = [
      "content-type",
      headers["content-type"],
      "x-request-id",
      this.#requestId,
      "x-content-type-options",
      "nosniff",
      "content-security-policy",
      "sandbox",
    ];
    if (this.#errors.idHeader !== undefined) list.push(this.#errors.idHeader, this.#requestId);
    const length = headers["content-length"];
    if (length !== undefined) list.push("content-length", String(length));
    if (this.#isStream) list.push("cache-control", "no-cache", "x-accel-buffering", "no");
    this.#response.writeHead(status, list);
    if (!this.#response.chunkedEncoding) return;
    // Node writes a chunk in four parts. The header is set: from here on Node passes the bytes on unchanged.
    this.#response.chunkedEncoding = false;
    this.#isChunked = true;
  }

  write(bytes: Buffer): boolean {
    if (this.#isStream) this.#isWithinEvent = !endsWithBlankLine(bytes);
    if (this.#errors.isNumbered === true) this.#sequence += eventsIn(bytes);
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    this.#flushLater();
    return this.#pendingBytes + this.#response.writableLength < highWaterBytes;
  }

  onDrain(listener: () => void): void {
    if (this.#willFlush) this.#onDrain = listener;
    else this.#awaitDrain(listener);
  }

  #awaitDrain(listener: () => void): void {
    this.#limitStall();
    this.#response.once("drain", () => {
      this.#limitStall(0);
      listener();
    });
  }

  /**
   * Node counts the time in which the kernel takes no byte of a write and the client sends none, and then destroys the
   * connection; a write that was taken in part gets the time twice. 0: no limit.
   */
  #limitStall(ms = this.#options.stallMs ?? stallMs): void {
    const { socket } = this.#response;
    if (socket !== null) socket.setTimeout(ms);
    // Behind another answer on its connection.
    else this.#response.once("socket", (its: Socket) => void its.setTimeout(ms));
  }

  #limitLastStall(): void {
    if (this.#response.writableLength === 0) return;
    this.#limitStall();
    // Before Node's own listener, which sets the limit of a connection without a request, or begins the next answer on it.
    this.#response.prependOnceListener("finish", () => this.#limitStall(0));
  }

  end(bytes?: Buffer): void {
    if (bytes !== undefined) {
      this.#pending.push(bytes);
      this.#pendingBytes += bytes.length;
      if (bytes.length > highWaterBytes) this.#countUntilTaken(bytes.length);
    }
    this.#isEnded = true;
    this.#flushLater();
  }

  #countUntilTaken(bytes: number): void {
    const { budget } = this.#options;
    if (budget === undefined || this.#response.destroyed) return;
    budget.add(bytes);
    this.#response.once("close", () => budget.give(bytes));
  }

  flush(): void {
    this.#willFlush = false;
    const response = this.#response;
    if (response.destroyed || response.writableEnded) return;
    const bytes = this.#taken();
    if (!this.#isEnded) {
      const hasRoom = response.write(bytes);
      const onDrain = this.#onDrain;
      this.#onDrain = undefined;
      if (onDrain === undefined) return;
      if (hasRoom) onDrain();
      else this.#awaitDrain(onDrain);
      return;
    }
    const isBehind = response.writableLength > 0;
    if (bytes.length === 0) response.end();
    // Node sends a text in one piece with the head, and a buffer separately.
    else if (bytes.length <= copiedBytes) response.end(bytes.toString("latin1"), "latin1");
    else response.end(bytes);
    if (isBehind || this.#isStream || bytes.length > copiedBytes) this.#limitLastStall();
  }

  refuse(failure: ApiError, events?: string): void {
    // Also for a disconnected client: a person has to mend the cause.
    this.#options.log?.failed(failure, this.#requestId);
    if (this.isOver) return;
    this.failure = failure;
    this.#isEnded = true;
    if (!this.hasBegun) sendError(this.#response, failure, this.#requestId, this.#errors);
    else if (this.#isStream) {
      // An event of its own: within another event both would be lost.
      const last = Buffer.from(
        `${this.#isWithinEvent ? "\n" : ""}${events ?? this.#errors.event(failure, this.#sequence)}`,
      );
      this.#pending.push(last);
      this.#pendingBytes += last.length;
      this.#response.end(this.#taken());
      this.#limitLastStall();
    }
    // Any other body than an event stream cannot carry an error any more: it must not look complete.
    else this.#cut();
  }

  #cut(): void {
    const response = this.#response;
    const { socket } = response;
    // Behind another answer it has no connection yet. Node would assign one, and send the body without an end.
    if (socket === null) response.once("socket", (its: Socket) => its.destroy());
    // With HTTP/1.0 the end of the connection is the end of the answer, unless the connection is reset.
    else if (response.req.httpVersionMinor === 0) socket.resetAndDestroy();
    response.destroy();
  }

  #flushLater(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    atEndOfTurn(this);
  }

  /** Takes the bytes to send now. */
  #taken(): Buffer {
    const bytes = this.#framed(this.#pending, this.#pendingBytes);
    this.#pending = [];
    this.#pendingBytes = 0;
    return bytes;
  }

  /** One chunk of a chunked body (RFC 9112, 7.1). Empty for no bytes, since an empty chunk would end the body. */
  #framed(parts: readonly Buffer[], size: number): Buffer {
    const [only] = parts;
    if (!this.#isChunked) return parts.length === 1 && only !== undefined ? only : Buffer.concat(parts, size);
    const head = size === 0 ? "" : `${size.toString(16)}\r\n`;
    const tail = `${size === 0 ? "" : "\r\n"}${this.#isEnded ? "0\r\n\r\n" : ""}`;
    const chunk = Buffer.allocUnsafe(head.length + size + tail.length);
    let at = chunk.write(head, 0, "latin1");
    for (const part of parts) at += part.copy(chunk, at);
    chunk.write(tail, at, "latin1");
    return chunk;
  }
}

/** The client was promised a stream, and the engine's answer is not a stream. */
export class NotAStream extends Error {
  override readonly name = "NotAStream";
}

export function isEventStream(contentType: string): boolean {
  return contentType.startsWith("text/event-stream");
}
