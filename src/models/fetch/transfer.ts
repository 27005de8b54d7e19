import { connect as connectPlain, isIP, type LookupFunction, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { errorMessage } from "../../lib/error-code.ts";
import { InnerAddress } from "../../lib/inner-addresses.ts";
import { ProtocolError, ResponseParser } from "../../engine-client/response-parser.ts";
import type { Proxies, Proxy } from "./proxies.ts";
import { connectToProxy, openTunnel } from "./tunnel.ts";
import { unansweredText, unreachableText } from "./unreachable.ts";

/** One request over one connection of its own. */
export interface TransferRequest {
  readonly method: "GET" | "HEAD";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** Resolves a host name, or refuses it; absent: the system's resolver. */
  readonly lookup?: LookupFunction | undefined;
  /** Absent: no proxy is used. */
  readonly proxies?: Proxies;
  readonly connectMs: number;
  /** A connection that receives no byte for so long is closed. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
}

export interface TransferHead {
  readonly status: number;
  /** The first value of each header, by its lower-case name. */
  readonly headers: ReadonlyMap<string, string>;
}

export interface TransferSink {
  /** Returns false if the body is not wanted; the transfer then ends. */
  onHead(head: TransferHead): boolean;
  /** The memory for the next bytes of the body. Absent or undefined: the buffer of all connections. */
  room?(): Buffer | undefined;
  /**
   * Takes a chunk, which is valid during the call only, and may lie in the memory that `room` gave. Returns false if
   * nothing more may come until `flow.resume()`.
   */
  onData(chunk: Buffer, flow: Flow): boolean;
}

export interface Flow {
  resume(): void;
}

/** The exchange broke off; the address may still serve another exchange. */
export class TransferError extends Error {
  override readonly name = "TransferError";
  readonly phase: "connect" | "stalled" | "broken";

  constructor(phase: TransferError["phase"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.phase = phase;
  }
}

/** The buffer that all connections read into in turn: a buffer for each read would make memory grow. */
const readBuffer = Buffer.allocUnsafeSlow(131_072);
const headEnd = Buffer.from("\r\n\r\n");
const headLimitBytes = 65_536;

/**
 * Sends one request and gives its answer to `sink`. Resolves at the end of the body, or if the sink wants none.
 * Rejects with TransferError, with FetchError for a variable of a proxy that is no URL, with the reason of `signal`, or
 * with the error that the sink has thrown.
 */
export async function transfer(request: TransferRequest, sink: TransferSink): Promise<void> {
  request.signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const exchange = new Transfer(request, sink, (error) => (error === undefined ? resolve() : reject(error)));
  const onAbort = (): void => exchange.end(abortReason(request.signal));
  request.signal.addEventListener("abort", onAbort, { once: true });
  try {
    await promise;
  } finally {
    request.signal.removeEventListener("abort", onAbort);
  }
}

class Transfer implements Flow {
  readonly #request: TransferRequest;
  readonly #proxy: Proxy | undefined;
  readonly #sink: TransferSink;
  readonly #onEnd: (error?: Error) => void;
  #socket: Socket | undefined;
  readonly #parser: ResponseParser;
  #timer: NodeJS.Timeout;
  #phase: TransferError["phase"] = "connect";
  #isPaused = false;
  #isOver = false;
  /** The received part of an incomplete header. */
  #begun: Buffer | undefined;
  #head: TransferHead | undefined;

  constructor(request: TransferRequest, sink: TransferSink, onEnd: (error?: Error) => void) {
    this.#request = request;
    this.#proxy = request.proxies?.(request.url);
    this.#sink = sink;
    this.#onEnd = onEnd;
    this.#parser = new ResponseParser({
      onHead: () => {
        if (this.#head !== undefined && !sink.onHead(this.#head)) this.end();
      },
      onData: (chunk) => {
        if (!this.#isOver && !sink.onData(chunk, this)) this.#isPaused = true;
      },
      onEnd: () => this.end(),
    });
    const { url, connectMs } = request;
    this.#timer = setTimeout(() => this.#fail(unansweredText(url.host, connectMs)), connectMs);
    this.#begin();
  }

  /** A proxy resolves names itself. A name that this machine resolves to itself is therefore refused before. */
  #begin(): void {
    const { url, lookup } = this.#request;
    if (lookup === undefined || this.#proxy === undefined) return void (this.#socket = this.#connect());
    lookup(url.hostname, { all: true }, (error) => {
      if (this.#isOver) return;
      if (error instanceof InnerAddress) this.#fail(`${url.host}: ${error.message}`, error);
      else this.#socket = this.#connect();
    });
  }

  #connect(): Socket {
    const { url, lookup } = this.#request;
    const proxy = this.#proxy;
    const isTls = url.protocol === "https:";
    const host = url.hostname.replace(/^\[|\]$/g, "");
    const onread = {
      buffer: () => this.#place(),
      callback: (size: number, place: Uint8Array) => this.#read(Buffer.from(place.buffer, place.byteOffset, size)),
    };
    const named = isIP(host) === 0 ? { servername: host } : {};
    const secure = { ALPNProtocols: ["http/1.1"], ...named };
    if (proxy !== undefined) {
      const via = `the proxy ${proxy.url.host}`;
      const onConnect = (): void => this.#send();
      if (!isTls) return this.#follow(connectToProxy(proxy, onConnect, { onread }), via);
      const tunnel = openTunnel(proxy, url, (refusal) => {
        if (this.#isOver) return;
        if (refusal !== undefined) return this.#fail(`${via} ${refusal}`);
        const secured = this.#follow(connectTls({ ...secure, socket: tunnel }), url.host);
        // Node ignores `onread` here: each read has a buffer of its own.
        secured.on("data", (chunk: Buffer) => void this.#read(chunk));
        secured.once("secureConnect", onConnect);
        this.#socket = secured;
      });
      return this.#follow(tunnel, via);
    }
    const port = url.port === "" ? (isTls ? 443 : 80) : Number(url.port);
    const options = { host, port, onread, ...(lookup === undefined ? {} : { lookup }) };
    const socket = isTls ? connectTls({ ...options, ...secure }) : connectPlain(options);
    socket.once(isTls ? "secureConnect" : "connect", () => this.#send());
    return this.#follow(socket, url.host);
  }

  #follow(socket: Socket, peer: string): Socket {
    socket.on("error", (error) => {
      const text = this.#phase === "connect" ? unreachableText(peer, error) : undefined;
      this.#fail(text ?? `${peer}: ${errorMessage(error)}`, error);
    });
    socket.on("end", () => this.#closed());
    socket.on("close", () => this.#closed());
    return socket;
  }

  resume(): void {
    if (!this.#isPaused || this.#isOver) return;
    this.#isPaused = false;
    this.#watch();
    this.#socket?.resume();
  }

  end(error?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#socket?.destroy();
    this.#onEnd(error);
  }

  #send(): void {
    const { method, url, headers } = this.#request;
    const proxy = this.#proxy;
    const isForwarded = proxy !== undefined && url.protocol === "http:";
    const credentials =
      isForwarded && proxy.authorization !== undefined ? { "proxy-authorization": proxy.authorization } : {};
    const lines = Object.entries({ ...headers, ...credentials }).map(([name, value]) => `${name}: ${value}\r\n`);
    const path = `${isForwarded ? url.origin : ""}${url.pathname}${url.search}`;
    this.#socket?.write(
      `${method} ${path} HTTP/1.1\r\nhost: ${url.host}\r\nuser-agent: berth\r\naccept: */*\r\n` +
        `accept-encoding: identity\r\nconnection: close\r\n${lines.join("")}\r\n`,
    );
    this.#phase = "broken";
    this.#watch();
  }

  /** The memory of the next read. A sink that waits for room may have none when the reading goes on. */
  #place(): Buffer {
    const isBody = this.#head !== undefined && !this.#isPaused && !this.#isOver;
    return (isBody ? this.#sink.room?.() : undefined) ?? readBuffer;
  }

  /** Returns whether reading goes on. */
  #read(chunk: Buffer): boolean {
    if (this.#isOver) return false;
    // Refreshing the timer of `#watch` is cheaper than a timer for each chunk.
    this.#timer.refresh();
    try {
      const whole = this.#head === undefined ? this.#headIn(chunk) : chunk;
      if (whole !== undefined) this.#parser.push(whole);
    } catch (error) {
      if (error instanceof ProtocolError) this.#fail(`${this.#request.url.host}: ${error.message}`, error);
      else this.end(error instanceof Error ? error : new Error(errorMessage(error)));
    }
    if (!this.#isPaused || this.#isOver) return true;
    // A wait for a slow disk must not count as silence of the server.
    clearTimeout(this.#timer);
    this.#socket?.pause();
    return false;
  }

  /** All bytes so far once the header of the final answer is among them. */
  #headIn(chunk: Buffer): Buffer | undefined {
    const bytes = this.#begun === undefined ? chunk : Buffer.concat([this.#begun, chunk]);
    let from = 0;
    for (;;) {
      const at = bytes.indexOf(headEnd, from);
      if (at === -1) break;
      const head = readHead(bytes.toString("latin1", from, at));
      from = at + headEnd.length;
      // 100 and 103 are interim answers: the final answer follows.
      if (head.status >= 100 && head.status < 200) continue;
      this.#head = head;
      this.#begun = undefined;
      return bytes;
    }
    if (bytes.length > headLimitBytes) throw new ProtocolError("the header is too large");
    // The chunk is valid during the call only.
    this.#begun = bytes === chunk ? Buffer.from(chunk) : bytes;
    return undefined;
  }

  #closed(): void {
    if (this.#isOver) return;
    try {
      if (this.#head !== undefined) this.#parser.end();
    } catch {
      // The incomplete answer is reported below.
    }
    this.#fail(`${this.#request.url.host} closed the connection early`);
  }

  /** Starts the timer for the next byte. */
  #watch(): void {
    clearTimeout(this.#timer);
    const { stallMs, url } = this.#request;
    this.#timer = setTimeout(() => {
      this.#phase = "stalled";
      this.#fail(`${url.host} has sent nothing for ${stallMs / 1000} s`);
    }, stallMs);
  }

  #fail(message: string, cause?: unknown): void {
    this.end(new TransferError(this.#phase, message, { cause }));
  }
}

/** Reads status and headers of the answer. The parser checks them afterwards, but does not keep all of them. */
function readHead(text: string): TransferHead {
  const [first = "", ...lines] = text.split("\r\n");
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    if (colon > 0 && !headers.has(name)) headers.set(name, line.slice(colon + 1).trim());
  }
  return { status: Number(/^HTTP\/1\.[01] (\d{3})/.exec(first)?.[1] ?? 0), headers };
}

function abortReason({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error("aborted");
}
