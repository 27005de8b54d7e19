import { Socket } from "node:net";
import { atEndOfTurn, type Flushable } from "../lib/end-of-turn.ts";
import { isShortage } from "../lib/error-code.ts";
import {
  ExchangeError,
  sizeOf,
  type ExchangeEvents,
  type RequestBody,
  type ResponseHead,
  type StoredBody,
  type Timeouts,
} from "../lib/exchange.ts";
import { longestTimerMs } from "../lib/longest-timer.ts";
import { release } from "../lib/release.ts";
import { ProtocolError, ResponseParser, type ResponseEvents } from "./response-parser.ts";

/** All sockets read into this buffer, one after the other: bytes to keep are copied before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(65_536);
/** Up to this size one copy costs less than a write in parts. */
const copiedBytes = 16_384;
const connectTimeoutMs = 5000;
const idleSocketMs = 55_000;

/** One socket to an engine, with at most one request in progress. */
export class Connection implements ResponseEvents, Flushable {
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  readonly #onGone: (connection: Connection) => void;
  #events: ExchangeEvents | undefined;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = 0;
  #deadline = Infinity;
  #kind: "connect" | "timeout" | "idle" = "connect";
  #firstByteMs = 0;
  #idleMs = 0;
  #isConnected = false;
  #isPaused = false;
  /** The bytes of a request that is sent at the end of the turn. */
  #unsent = "";
  /** A stored body is being sent. Its answer may be complete before: no other request can follow then. */
  #isSending = false;

  /** `onGone` is called once, when the socket has closed. */
  constructor(host: string, port: number, onGone: (connection: Connection) => void) {
    this.#onGone = onGone;
    this.#parser = new ResponseParser(this);
    this.#socket = new Socket({
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (size) => {
          const chunk = Buffer.allocUnsafe(size);
          readBuffer.copy(chunk, 0, 0, size);
          this.#data(chunk);
          return !this.#isPaused;
        },
      },
    });
    this.#socket.connect({ host, port });
    this.#arm(connectTimeoutMs, "connect");
    this.#socket.on("connect", () => {
      this.#isConnected = true;
      if (this.#events === undefined) this.#disarm();
      else this.#arm(this.#firstByteMs, "timeout");
    });
    this.#socket.on("end", () => this.#ended());
    this.#socket.on("error", (error) => {
      const isOurs = !this.#isConnected && isShortage(error);
      this.#fail(isOurs ? "shortage" : this.#phase(), error.message);
    });
    this.#socket.on("close", () => {
      this.#fail(this.#phase(), "the connection closed");
      clearTimeout(this.#timer);
      this.#onGone(this);
    });
  }

  /** The connection can carry another request. */
  get isUsable(): boolean {
    return (
      this.#parser.isKeptAlive &&
      this.#isConnected &&
      !this.#isSending &&
      !this.#socket.destroyed &&
      this.#socket.readable &&
      // An answer may arrive before its request was sent completely: the rest of the request then blocks the next one.
      this.#socket.writableLength === 0 &&
      this.#events === undefined
    );
  }

  /** The kernel has all bytes of the request. */
  get isSent(): boolean {
    return this.#isConnected && !this.#isSending && this.#unsent === "" && this.#socket.writableLength === 0;
  }

  send(head: string, body: RequestBody, timeouts: Timeouts, events: ExchangeEvents): void {
    this.#events = events;
    this.#firstByteMs = timeouts.firstByteMs;
    this.#idleMs = timeouts.idleMs;
    this.#parser.reset();
    if (this.#isConnected) this.#arm(timeouts.firstByteMs, "timeout");
    if ("read" in body) {
      this.#socket.write(head, "latin1");
      this.#sendStored(body).catch((error: unknown) => {
        this.#failWith(error instanceof Error ? error : new Error(String(error)));
      });
      return;
    }
    if (sizeOf(body) <= copiedBytes) {
      let text = head;
      for (const part of body) text += part.toString("latin1");
      this.#unsent = text;
      atEndOfTurn(this);
      return;
    }
    this.#socket.cork();
    this.#socket.write(head, "latin1");
    for (const part of body) if (part.length > 0) this.#socket.write(part);
    this.#socket.uncork();
  }

  flush(): void {
    const text = this.#unsent;
    this.#unsent = "";
    if (!this.#socket.destroyed) this.#socket.write(text, "latin1");
  }

  /** Keeps the connection for the next request, for a limited time. */
  rest(): void {
    this.#arm(idleSocketMs, "idle");
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
    // Waiting for a slow reader does not count as the engine's silence.
    this.#disarm();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
    if (this.#events !== undefined) this.#arm(this.#idleMs, "timeout");
  }

  /** Closes the connection at once; no event follows for the request in progress. */
  destroy(): void {
    this.#events = undefined;
    this.#disarm();
    this.#socket.destroy();
  }

  onHead(head: ResponseHead): void {
    this.#heard();
    this.#events?.onHead(head);
  }

  onData(chunk: Buffer): void {
    this.#heard();
    this.#events?.onData(chunk);
  }

  onEnd(): void {
    const events = this.#events;
    this.#events = undefined;
    this.#disarm();
    // A reader that was too slow for the last bytes must not leave the next request paused.
    if (this.#isPaused) this.resume();
    events?.onEnd();
  }

  #data(chunk: Buffer): void {
    if (this.#events === undefined) {
      // Bytes without a request: the connection cannot be trusted any more.
      this.destroy();
      return;
    }
    if (this.#unsent !== "") {
      // The request was not sent yet, so these bytes are no answer to it.
      this.#fail("closed", "the engine spoke before it was asked");
      return;
    }
    try {
      this.#parser.push(chunk);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#fail("broken", error.message);
    }
  }

  /** The time begins again with the head and with bytes of the body: announcements, trailers and the like buy none. */
  #heard(): void {
    if (this.#events !== undefined && !this.#isPaused) this.#arm(this.#idleMs, "timeout");
  }

  #ended(): void {
    try {
      if (this.#events !== undefined && this.#parser.hasBegun) this.#parser.end();
    } catch {
      this.#fail("broken", "the connection closed within the answer");
    }
    this.#socket.destroy();
  }

  async #sendStored(body: StoredBody): Promise<void> {
    this.#isSending = true;
    for await (const chunk of body.read()) {
      await new Promise<void>((resolve) => this.#socket.write(chunk, () => resolve()));
      release(chunk);
      // Also where the engine answers before it has read all: the rest is not needed.
      if (this.#events === undefined || this.#socket.destroyed) return;
    }
    this.#isSending = false;
  }

  #fail(phase: ExchangeError["phase"], message: string): void {
    if (this.#events === undefined) this.#release();
    else this.#failWith(new ExchangeError(phase, message));
  }

  #failWith(error: Error): void {
    const events = this.#events;
    this.#events = undefined;
    this.#release();
    events?.onError(error);
  }

  #release(): void {
    this.#disarm();
    this.#socket.destroy();
  }

  #phase(): ExchangeError["phase"] {
    if (!this.#isConnected) return "connect";
    return this.#parser.hasBegun ? "broken" : "closed";
  }

  /** One timer per connection, rescheduled rather than created for every chunk. */
  #arm(ms: number, kind: "connect" | "timeout" | "idle"): void {
    this.#deadline = ms === 0 ? Infinity : performance.now() + ms;
    this.#kind = kind;
    if (ms === 0) return;
    if (this.#timer !== undefined) {
      if (this.#dueAt <= this.#deadline) return;
      clearTimeout(this.#timer);
    }
    this.#schedule(ms);
  }

  #schedule(ms: number): void {
    this.#dueAt = performance.now() + ms;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        const left = this.#deadline - performance.now();
        if (left === Infinity) return;
        if (left > 1) this.#schedule(left);
        else if (this.#kind === "idle") this.#socket.destroy();
        else this.#fail(this.#kind, this.#kind === "connect" ? "no connection in time" : "no byte in time");
      },
      Math.min(ms, longestTimerMs),
    );
    this.#timer.unref();
  }

  #disarm(): void {
    this.#deadline = Infinity;
  }
}
