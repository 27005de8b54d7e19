import {
  ExchangeError,
  sizeOf,
  type Exchange,
  type ExchangeEvents,
  type ExchangeRequest,
  type RequestBody,
  type ResponseHead,
  type SendOptions,
  type Timeouts,
  type Transport,
} from "../lib/exchange.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { Connection } from "./connection.ts";

/** As many as a burst of new streams may need: a connection that must be opened first costs a seventh of a new stream. */
const idleSocketLimit = 1024;

/**
 * A kept-alive connection that the engine was closing when the request was sent ends within this. One that ends later was read:
 * the engine may have worked on the request, or have died of it.
 */
const usualResendLimitMs = 1000;

interface EngineAddress {
  readonly host: string;
  readonly port: number;
  /** The secret that the engine requires of its clients; absent: none. */
  readonly bearer?: string;
}

interface EnginePoolOptions {
  readonly onShortage?: () => void;
  readonly onClosed?: (pool: EnginePool) => void;
  /** A request on a connection that ends later than this is not sent again; absent: 1000. */
  readonly resendLimitMs?: number;
}

/**
 * Kept-alive HTTP/1.1 connections to one start of one engine. An own client, since both ends are our own and this path
 * is the hot path. A request is sent again only when a kept-alive socket closed within a second, before any byte of an answer.
 */
export class EnginePool implements Transport {
  readonly #host: string;
  readonly #port: number;
  readonly #hostLine: string;
  readonly #bearerLine: string;
  readonly #idle: Connection[] = [];
  /** No connection could be opened: those that are idle anywhere are in the way. */
  readonly onShortage: () => void;
  readonly resendLimitMs: number;
  readonly #onClosed: (pool: EnginePool) => void;
  #isClosed = false;
  readonly #onGone = (connection: Connection): void => {
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  };

  constructor({ host, port, bearer }: EngineAddress, { onShortage, onClosed, resendLimitMs }: EnginePoolOptions = {}) {
    this.#host = host;
    this.#port = port;
    this.#hostLine = `host: ${host.includes(":") ? `[${host}]` : host}:${port}\r\n`;
    this.#bearerLine = bearer === undefined ? "" : `authorization: Bearer ${bearer}\r\n`;
    this.onShortage = onShortage ?? (() => this.closeIdle());
    this.#onClosed = onClosed ?? (() => undefined);
    this.resendLimitMs = resendLimitMs ?? usualResendLimitMs;
  }

  /** Parts of a large body are not copied. */
  send(request: ExchangeRequest, options: SendOptions, events: ExchangeEvents): Exchange {
    const { body, contentType = "application/json" } = request;
    const lines = body && `content-type: ${contentType}\r\ncontent-length: ${sizeOf(body)}\r\n`;
    return new PooledExchange(this, events).send(this.#head(request, options, lines ?? ""), body ?? [], options);
  }

  /** Only what an engine needs: credentials, cookies and forwarding headers of clients stay here. */
  #head({ method, path, accept }: ExchangeRequest, { requestId, trace }: SendOptions, bodyLines: string): string {
    let idLine = requestId === undefined ? "" : `x-request-id: ${requestId}\r\n`;
    if (trace !== undefined) idLine += trace.lines;
    return `${method} ${path} HTTP/1.1\r\n${this.#hostLine}${bodyLines}${idLine}accept: ${accept}\r\n${this.#bearerLine}\r\n`;
  }

  /** Requests in flight run to their end; their connections close then. */
  close(): void {
    this.#isClosed = true;
    this.closeIdle();
    this.#onClosed(this);
  }

  closeIdle(): void {
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
 * The pools of all engines. A connection outlives who listened when it was made: whoever opens a pool closes it when that
 * engine ends, and opens another for the next one at the same place.
 */
export class EnginePools {
  readonly #pools = new Set<EnginePool>();

  open(address: EngineAddress): EnginePool {
    const pool = new EnginePool(address, {
      onShortage: () => {
        for (const each of this.#pools) each.closeIdle();
      },
      onClosed: (closed) => this.#pools.delete(closed),
    });
    this.#pools.add(pool);
    return pool;
  }

  close(): void {
    for (const pool of this.#pools) pool.close();
  }
}

class PooledExchange implements Exchange, ExchangeEvents {
  readonly #pool: EnginePool;
  readonly #events: ExchangeEvents;
  /** Undefined once it is over: then the connection is another's. */
  #connection: Connection | undefined;
  /** Kept only while it may have to be sent again: a stream must not hold its request's body. */
  #resend:
    | { readonly head: string; readonly body: RequestBody; readonly timeouts: Timeouts; readonly sentAt: number }
    | undefined;

  constructor(pool: EnginePool, events: ExchangeEvents) {
    this.#pool = pool;
    this.#events = events;
  }

  send(head: string, body: RequestBody, { timeouts, isOnce }: SendOptions): this {
    const reused = isOnce === true ? undefined : this.#pool.take();
    if (reused !== undefined) this.#resend = { head, body, timeouts, sentAt: steadyNow() };
    this.#connection = reused ?? this.#pool.open();
    this.#connection.send(head, body, timeouts, this);
    return this;
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

  onError(error: Error): void {
    const phase = error instanceof ExchangeError ? error.phase : undefined;
    if (phase === "shortage") this.#pool.onShortage();
    const again = this.#resend;
    this.#resend = undefined;
    if (again === undefined || phase !== "closed" || steadyNow() - again.sentAt > this.#pool.resendLimitMs) {
      this.#connection = undefined;
      this.#events.onError(error);
      return;
    }
    this.#connection = this.#pool.open();
    this.#connection.send(again.head, again.body, again.timeouts, this);
  }
}
