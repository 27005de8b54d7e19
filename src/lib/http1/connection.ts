import { connect, type Socket } from "node:net";
import { atEndOfTurn, type Flushable } from "../end-of-turn.ts";
import { isShortage } from "../error-code.ts";
import { longestTimerMs } from "../longest-timer.ts";
import { ProtocolError, ResponseParser, type ResponseEvents, type ResponseHead } from "./response-parser.ts";

/** Why there is no (whole) answer. */
export class ExchangeError extends Error {
  override readonly name = "ExchangeError";
  /**
   * `connect`: nothing was sent. `shortage`: nothing was sent, since this process may open no more connections. `closed`:
   * the connection ended before any byte of an answer. `broken`: it ended within the answer, or the answer is garbage.
   */
  readonly phase: "connect" | "shortage" | "closed" | "broken" | "timeout";

  constructor(phase: ExchangeError["phase"], message: string) {
    super(message);
    this.phase = phase;
  }
}

export interface Timeouts {
  /** Milliseconds until the first byte of the answer, and between later ones; 0 none. */
  readonly firstByteMs: number;
  readonly idleMs: number;
}

export interface ConnectionEvents extends ResponseEvents {
  /** Exactly one of `onEnd` and `onError` is called, once. */
  onError(error: ExchangeError): void;
}

/** All sockets read into it, one after the other: what comes is copied out before the next read. */
const readBuffer = Buffer.allocUnsafeSlow(65_536);
/** Up to this size one copy costs less than a write in parts. */
const copiedBytes = 16_384;
const connectTimeoutMs = 5000;
const idleSocketMs = 55_000;

/** One socket to an engine, with at most one request under way. */
export class Connection implements ResponseEvents, Flushable {
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  readonly #onGone: (connection: Connection) => void;
  #events: ConnectionEvents | undefined;
  #timer: NodeJS.Timeout | undefined;
  #dueAt = 0;
  #deadline = Infinity;
  #kind: "connect" | "timeout" | "idle" = "connect";
  #firstByteMs = 0;
  #idleMs = 0;
  #isConnected = false;
  #isPaused = false;
  /** A request that goes out at the end of the turn. */
  #unsent = "";

  /** `onGone` hears once that the socket has closed. */
  constructor(host: string, port: number, onGone: (connection: Connection) => void) {
    this.#onGone = onGone;
    this.#parser = new ResponseParser(this);
    this.#socket = connect({
      host,
      port,
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

  /** Another request may be sent. */
  get isUsable(): boolean {
    return (
      this.#parser.isKeptAlive &&
      this.#isConnected &&
      !this.#socket.destroyed &&
      this.#socket.readable &&
      // An answer may come before its request was sent whole: the rest of it is in the way of the next.
      this.#socket.writableLength === 0 &&
      this.#events === undefined
    );
  }

  /** The system has taken all that was to be sent. */
  get isSent(): boolean {
    return this.#isConnected && this.#unsent === "" && this.#socket.writableLength === 0;
  }

  send(head: string, body: readonly Buffer[], timeouts: Timeouts, events: ConnectionEvents): void {
    this.#events = events;
    this.#firstByteMs = timeouts.firstByteMs;
    this.#idleMs = timeouts.idleMs;
    this.#parser.reset();
    if (this.#isConnected) this.#arm(timeouts.firstByteMs, "timeout");
    let size = 0;
    for (const part of body) size += part.length;
    if (size <= copiedBytes) {
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

  /** Kept for the next request, for a while. */
  rest(): void {
    this.#arm(idleSocketMs, "idle");
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
    // Waiting for a slow reader is not the engine's silence.
    this.#disarm();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket.resume();
    if (this.#events !== undefined) this.#arm(this.#idleMs, "timeout");
  }

  /** Ends it at once; no event follows for the request under way. */
  destroy(): void {
    this.#events = undefined;
    this.#disarm();
    this.#socket.destroy();
  }

  onHead(head: ResponseHead): void {
    this.#events?.onHead(head);
  }

  onData(chunk: Buffer): void {
    this.#events?.onData(chunk);
  }

  onEnd(): void {
    const events = this.#events;
    this.#events = undefined;
    this.#disarm();
    // A reader that was too slow for the last bytes must not leave the next request waiting.
    if (this.#isPaused) this.resume();
    events?.onEnd();
  }

  #data(chunk: Buffer): void {
    if (this.#events === undefined) {
      // Nobody asked: whatever this is, the connection cannot be trusted any more.
      this.destroy();
      return;
    }
    if (this.#unsent !== "") {
      // Nor is it an answer to what was not sent yet.
      this.#fail("closed", "the engine spoke before it was asked");
      return;
    }
    if (!this.#isPaused) this.#arm(this.#idleMs, "timeout");
    try {
      this.#parser.push(chunk);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#fail("broken", error.message);
    }
  }

  #ended(): void {
    try {
      if (this.#events !== undefined && this.#parser.hasBegun) this.#parser.end();
    } catch {
      this.#fail("broken", "the connection closed within the answer");
    }
    this.#socket.destroy();
  }

  #fail(phase: ExchangeError["phase"], message: string): void {
    const events = this.#events;
    this.#events = undefined;
    this.#disarm();
    this.#socket.destroy();
    events?.onError(new ExchangeError(phase, message));
  }

  #phase(): ExchangeError["phase"] {
    if (!this.#isConnected) return "connect";
    return this.#parser.hasBegun ? "broken" : "closed";
  }

  /** One timer per connection, moved on rather than made anew for every chunk. */
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
