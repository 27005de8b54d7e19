import { Connection, type ConnectionEvents, type ExchangeError, type Timeouts } from "./connection.ts";
import type { ResponseHead } from "./response-parser.ts";

export { ExchangeError, type ConnectionEvents as ExchangeEvents, type Timeouts } from "./connection.ts";

/** One request under way. */
export interface Exchange {
  /** Reads no more until `resume`: the engine then feels the backpressure. */
  pause(): void;
  resume(): void;
  /** Drops the connection; no event follows. */
  abort(): void;
  /** The system has all of the request: nothing here reads its body any more. Absent: nobody knows. */
  readonly isSent?: boolean;
}

const idleSocketLimit = 256;

/**
 * Kept-alive HTTP/1.1 connections to one engine on loopback: our own, because what lies between is our own too and
 * this path is the product's hot one. A request is sent again only when a kept-alive socket closed before any byte
 * of an answer.
 */
export class EnginePool {
  readonly #host: string;
  readonly #port: number;
  readonly #idle: Connection[] = [];
  /** No connection could be opened: those that are idle anywhere are in the way. */
  readonly onShortage: () => void;
  #isClosed = false;
  readonly #onGone = (connection: Connection): void => {
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  };

  constructor(host: string, port: number, onShortage: () => void = () => this.close()) {
    this.#host = host;
    this.#port = port;
    this.onShortage = onShortage;
  }

  /** Sends `head` (request line and headers, with the blank line) and `body`. Parts of a large one are not copied. */
  request(head: string, body: readonly Buffer[], timeouts: Timeouts, events: ConnectionEvents): Exchange {
    return new PooledExchange(this, head, body, timeouts, events);
  }

  /** What is under way ends by itself, and its connection with it. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  /** A kept-alive connection, or none. */
  take(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.isUsable) return connection;
      connection.destroy();
    }
  }

  open(): Connection {
    return new Connection(this.#host, this.#port, this.#onGone);
  }

  give(connection: Connection): void {
    if (this.#isClosed || !connection.isUsable || this.#idle.length >= idleSocketLimit) {
      connection.destroy();
      return;
    }
    connection.rest();
    this.#idle.push(connection);
  }
}

/**
 * The pools of all engines, by port: everything else about them is loopback. A connection outlives who listened when it
 * was made: none is kept for the `process` that has the port now where it leads to another.
 */
export class EnginePools {
  readonly #pools = new Map<number, { readonly pool: EnginePool; readonly process: string | undefined }>();

  to({ host, port, process }: { readonly host: string; readonly port: number; readonly process?: string }): EnginePool {
    const known = this.#pools.get(port);
    if (known !== undefined && known.process === process) return known.pool;
    known?.pool.close();
    const pool = new EnginePool(host, port, () => this.close());
    this.#pools.set(port, { pool, process });
    return pool;
  }

  close(): void {
    for (const { pool } of this.#pools.values()) pool.close();
  }
}

class PooledExchange implements Exchange, ConnectionEvents {
  readonly #pool: EnginePool;
  readonly #events: ConnectionEvents;
  /** Undefined once it is over: then the connection is another's. */
  #connection: Connection | undefined;
  /** Kept only while it may have to be sent again: a stream must not hold its request's body. */
  #resend: { readonly head: string; readonly body: readonly Buffer[]; readonly timeouts: Timeouts } | undefined;

  constructor(pool: EnginePool, head: string, body: readonly Buffer[], timeouts: Timeouts, events: ConnectionEvents) {
    this.#pool = pool;
    this.#events = events;
    const reused = pool.take();
    if (reused !== undefined) this.#resend = { head, body, timeouts };
    this.#connection = reused ?? pool.open();
    this.#connection.send(head, body, timeouts, this);
  }

  pause(): void {
    this.#connection?.pause();
  }

  resume(): void {
    this.#connection?.resume();
  }

  abort(): void {
    this.#resend = undefined;
    this.#connection?.destroy();
  }

  get isSent(): boolean {
    return this.#resend === undefined && this.#connection?.isSent === true;
  }

  onHead(head: ResponseHead): void {
    this.#resend = undefined;
    this.#events.onHead(head);
  }

  onData(chunk: Buffer): void {
    this.#events.onData(chunk);
  }

  onEnd(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection !== undefined) this.#pool.give(connection);
    this.#events.onEnd();
  }

  onError(error: ExchangeError): void {
    if (error.phase === "shortage") this.#pool.onShortage();
    const again = this.#resend;
    this.#resend = undefined;
    if (again === undefined || error.phase !== "closed") {
      this.#connection = undefined;
      this.#events.onError(error);
      return;
    }
    this.#connection = this.#pool.open();
    this.#connection.send(again.head, again.body, again.timeouts, this);
  }
}
