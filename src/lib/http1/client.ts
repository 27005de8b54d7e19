import { connect, type Socket } from "node:net";
import { ProtocolError, ResponseParser, type ResponseEvents, type ResponseHead } from "./response-parser.ts";

/** Why there is no (whole) answer. */
export class ExchangeError extends Error {
  override readonly name = "ExchangeError";
  /** `connect`: nothing was sent. `closed`: it ended before any answer. `broken`: within the answer, or garbage. */
  readonly phase: "connect" | "closed" | "broken" | "timeout";

  constructor(phase: ExchangeError["phase"], message: string) {
    super(message);
    this.phase = phase;
  }
}

export interface ExchangeEvents {
  onHead(head: ResponseHead): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
  /** Exactly one of `onEnd` and `onError` is called, once. */
  onError(error: ExchangeError): void;
}

export interface Timeouts {
  /** Milliseconds until the first byte of the answer, and between later ones; 0 none. */
  readonly firstByteMs: number;
  readonly idleMs: number;
}

/** One request under way. */
export interface Exchange {
  /** Reads no more until `resume`: the engine then feels the backpressure. */
  pause(): void;
  resume(): void;
  /** Drops the connection; no event follows. */
  abort(): void;
}

const connectTimeoutMs = 5000;
const idleSocketMs = 55_000;
const idleSocketLimit = 256;

/**
 * Kept-alive HTTP/1.1 connections to one engine on loopback: our own, because what lies between is our own too and
 * this path is the product's hot one (docs/performance.md). A request is sent again only when a kept-alive socket
 * closed before any byte of an answer.
 */
export class EnginePool {
  readonly #host: string;
  readonly #port: number;
  readonly #idle: Connection[] = [];

  constructor(host: string, port: number) {
    this.#host = host;
    this.#port = port;
  }

  /** Sends `head` (request line and headers, with the blank line) and `body`. */
  request(head: string, body: Buffer, timeouts: Timeouts, events: ExchangeEvents): Exchange {
    const lease = { current: undefined as Connection | undefined, isAborted: false };
    const send = (isRetry: boolean): void => {
      const reused = isRetry ? undefined : this.#take();
      const connection = reused ?? new Connection(this.#host, this.#port);
      lease.current = connection;
      connection.send(head, body, timeouts, {
        onHead: (answer) => events.onHead(answer),
        onData: (chunk) => events.onData(chunk),
        onEnd: () => {
          this.#give(connection);
          events.onEnd();
        },
        onError: (error) => {
          if (lease.isAborted) return;
          if (reused !== undefined && error.phase === "closed") send(true);
          else events.onError(error);
        },
      });
    };
    send(false);
    return {
      pause: () => lease.current?.pause(),
      resume: () => lease.current?.resume(),
      abort: () => {
        lease.isAborted = true;
        lease.current?.destroy();
      },
    };
  }

  close(): void {
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  #take(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.isUsable) return connection;
      connection.destroy();
    }
  }

  #give(connection: Connection): void {
    if (!connection.isUsable || this.#idle.length >= idleSocketLimit) {
      connection.destroy();
      return;
    }
    connection.rest(() => {
      const at = this.#idle.indexOf(connection);
      if (at >= 0) this.#idle.splice(at, 1);
    });
    this.#idle.push(connection);
  }
}

class Connection {
  readonly #socket: Socket;
  readonly #parser: ResponseParser;
  #events: ExchangeEvents | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timeouts: Timeouts = { firstByteMs: 0, idleMs: 0 };
  #isConnected = false;
  #isPaused = false;
  #onGone: (() => void) | undefined;

  constructor(host: string, port: number) {
    this.#parser = new ResponseParser(silent);
    this.#socket = connect({ host, port, noDelay: true });
    this.#arm(connectTimeoutMs, "connect");
    this.#socket.on("connect", () => {
      this.#isConnected = true;
      if (this.#events !== undefined) this.#arm(this.#timeouts.firstByteMs, "timeout");
      else this.#disarm();
    });
    this.#socket.on("data", (chunk) => this.#data(chunk));
    this.#socket.on("end", () => this.#ended());
    this.#socket.on("error", (error) => this.#fail(this.#phase(), error.message));
    this.#socket.on("close", () => {
      this.#fail(this.#phase(), "the connection closed");
      this.#onGone?.();
    });
  }

  get isUsable(): boolean {
    return (
      this.#parser.isKeptAlive &&
      this.#isConnected &&
      !this.#socket.destroyed &&
      this.#socket.readable &&
      this.#events === undefined
    );
  }

  send(head: string, body: Buffer, timeouts: Timeouts, events: ExchangeEvents): void {
    this.#onGone = undefined;
    this.#events = events;
    this.#timeouts = timeouts;
    this.#parser.reset({
      onHead: (answer) => this.#events?.onHead(answer),
      onData: (chunk) => this.#events?.onData(chunk),
      onEnd: () => this.#finish(),
    });
    if (this.#isConnected) this.#arm(timeouts.firstByteMs, "timeout");
    if (body.length === 0) this.#socket.write(head, "latin1");
    else {
      this.#socket.cork();
      this.#socket.write(head, "latin1");
      this.#socket.write(body);
      this.#socket.uncork();
    }
  }

  /** Kept for the next request; `onGone` when the engine closes it meanwhile. */
  rest(onGone: () => void): void {
    this.#onGone = onGone;
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
    this.#arm(this.#timeouts.idleMs, "timeout");
  }

  destroy(): void {
    this.#events = undefined;
    this.#disarm();
    this.#socket.destroy();
  }

  #data(chunk: Buffer): void {
    if (this.#events === undefined) {
      // Nobody asked: whatever this is, the connection cannot be trusted any more.
      this.destroy();
      return;
    }
    if (!this.#isPaused) this.#arm(this.#timeouts.idleMs, "timeout");
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

  #finish(): void {
    const events = this.#events;
    this.#events = undefined;
    this.#disarm();
    events?.onEnd();
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
    if (ms === 0 || this.#timer !== undefined) return;
    this.#schedule(ms);
  }

  #deadline = Infinity;
  #kind: "connect" | "timeout" | "idle" = "connect";

  #schedule(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const left = this.#deadline - performance.now();
      if (left === Infinity) return;
      if (left > 1) this.#schedule(left);
      else if (this.#kind === "idle") this.#socket.destroy();
      else this.#fail(this.#kind, this.#kind === "connect" ? "no connection in time" : "no byte in time");
    }, ms);
    this.#timer.unref();
  }

  #disarm(): void {
    this.#deadline = Infinity;
  }
}

const silent: ResponseEvents = { onHead: () => undefined, onData: () => undefined, onEnd: () => undefined };
