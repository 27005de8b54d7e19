import type { ExchangeEvents } from "../lib/exchange.ts";

/** A parser throws its errors. */
export type ResponseEvents = Omit<ExchangeEvents, "onError">;

/** The bytes are no HTTP/1.1 response. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

const headLimitBytes = 65_536;
const lineLimitBytes = 8192;
const headEnd = Buffer.from("\r\n\r\n");
const lineEnd = Buffer.from("\r\n");
const colon = 0x3a;
/** Characters that no header value may hold (RFC 9110, `field-value`). Node throws when such a value is set. */
const strangeValue = /[^\t\x20-\x7e\x80-\xff]/;
/** 1 for each character of a header's name (RFC 9110, `tchar`). */
const nameBytes = new Uint8Array(256);
for (const char of "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
  nameBytes[char.charCodeAt(0)] = 1;
}

type State = "head" | "length" | "chunkSize" | "chunkData" | "chunkEnd" | "trailer" | "close" | "done";

/**
 * Reads one response at a time from a byte stream, split in any way (RFC 9112). Strict where engines could hide
 * something: conflicting lengths, unknown encodings and malformed lines are errors.
 */
export class ResponseParser {
  readonly #events: ResponseEvents;
  #state: State = "head";
  #hasBegun = false;
  #held: Buffer | undefined;
  #left = 0;
  /** The bytes of announcements and trailers. */
  #headBytes = 0;
  #isKeptAlive = true;

  constructor(events: ResponseEvents) {
    this.#events = events;
  }

  /** A byte has come since the last reset. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  get isKeptAlive(): boolean {
    return this.#isKeptAlive;
  }

  /** Prepares for the next response on the same connection. */
  reset(): void {
    this.#state = "head";
    this.#hasBegun = false;
    this.#held = undefined;
    this.#headBytes = 0;
    this.#isKeptAlive = true;
  }

  /** Throws ProtocolError. */
  push(chunk: Buffer): void {
    this.#hasBegun = true;
    const bytes = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    let at = 0;
    while (at < bytes.length) {
      const next = this.#step(bytes, at);
      if (next < 0) {
        // A reader may fill the memory of the chunk again.
        this.#held = Buffer.from(bytes.subarray(at));
        return;
      }
      at = next;
      if (this.#state !== "done") continue;
      // A listener for the end may send the next request at once, and these bytes are no answer to that request.
      const isMore = at < bytes.length;
      if (isMore) this.#isKeptAlive = false;
      this.#events.onEnd();
      if (isMore) throw new ProtocolError("bytes arrived after the response");
      return;
    }
  }

  /** The peer closed. Throws ProtocolError when the response was not complete. */
  end(): void {
    if (this.#state === "close") {
      this.#state = "done";
      this.#events.onEnd();
      return;
    }
    if (this.#state !== "done") throw new ProtocolError("the connection closed within a response");
  }

  /** Consumes the element at `from`; returns the offset of the rest, -1 when more bytes are needed. */
  #step(bytes: Buffer, from: number): number {
    switch (this.#state) {
      case "head":
        return this.#head(bytes, from);
      case "length":
      case "chunkData": {
        const end = Math.min(from + this.#left, bytes.length);
        this.#left -= end - from;
        this.#events.onData(bytes.subarray(from, end));
        if (this.#left === 0) {
          this.#state = this.#state === "length" ? "done" : "chunkEnd";
        }
        return end;
      }
      case "chunkSize": {
        const end = this.#lineEnd(bytes, from);
        if (end < 0) return -1;
        this.#left = chunkSize(bytes, from, end);
        this.#state = this.#left === 0 ? "trailer" : "chunkData";
        return end + 2;
      }
      case "chunkEnd":
        if (bytes.length < from + 2) return -1;
        if (bytes[from] !== 0x0d || bytes[from + 1] !== 0x0a)
          throw new ProtocolError("a chunk is longer than its size");
        this.#state = "chunkSize";
        return from + 2;
      case "trailer": {
        const end = this.#lineEnd(bytes, from);
        if (end < 0) return -1;
        if (end === from) this.#state = "done";
        this.#countHead(end + 2 - from);
        return end + 2;
      }
      case "close":
        this.#events.onData(bytes.subarray(from));
        return bytes.length;
      case "done":
        throw new ProtocolError("bytes arrived after the response");
      default:
        return this.#state satisfies never;
    }
  }

  /** An engine may send any number of announcements before its header, and of lines after its body. */
  #countHead(count: number): void {
    this.#headBytes += count;
    if (this.#headBytes > headLimitBytes) throw new ProtocolError("the header is too large");
  }

  #lineEnd(bytes: Buffer, from: number): number {
    const at = bytes.indexOf(lineEnd, from);
    if (at < 0 && bytes.length - from > lineLimitBytes) throw new ProtocolError("a line is too long");
    return at;
  }

  #head(bytes: Buffer, from: number): number {
    const at = bytes.indexOf(headEnd, from);
    if (at < 0) {
      if (bytes.length - from > headLimitBytes) throw new ProtocolError("the header is too large");
      if (bytes.length >= from + 5 && bytes.toString("latin1", from, from + 5) !== "HTTP/")
        throw new ProtocolError("the answer is not HTTP");
      return -1;
    }
    const text = bytes.toString("latin1", from, at);
    const { status, isFirstVersion, length } = text.startsWith(usualLine.text) ? usualLine : readStatusLine(text);
    const known = readHeaders(text, length);
    // 100 and 103 only announce the answer; 101 would make it another protocol.
    if (status === 101) throw new ProtocolError("the answer switches protocols");
    if (status < 200) {
      this.#countHead(at + 4 - from);
      return at + 4;
    }
    const { connection = "", contentType, contentLength } = known;
    if (contentType !== undefined && strangeValue.test(contentType))
      throw new ProtocolError("the answer's type is malformed");
    this.#isKeptAlive = isFirstVersion ? /\bkeep-alive\b/i.test(connection) : !/\bclose\b/i.test(connection);
    this.#body(status, known);
    this.#events.onHead({ status, contentType, contentLength, isKeptAlive: this.#isKeptAlive });
    return at + 4;
  }

  #body(status: number, { transferEncoding, contentLength: length }: KnownHeaders): void {
    const encoding = transferEncoding?.toLowerCase();
    if (encoding !== undefined && length !== undefined) throw new ProtocolError("the answer has two lengths");
    if (encoding !== undefined && encoding !== "chunked")
      throw new ProtocolError(`the answer is encoded as ${encoding}`);
    if (length !== undefined && !/^\d{1,15}$/.test(length)) throw new ProtocolError("the answer's length is malformed");
    if (status === 204 || status === 304 || Number(length) === 0) this.#state = "done";
    else if (encoding === "chunked") this.#state = "chunkSize";
    else if (length === undefined) {
      this.#state = "close";
      this.#isKeptAlive = false;
    } else {
      this.#state = "length";
      this.#left = Number(length);
    }
  }
}

interface StatusLine {
  readonly status: number;
  /** HTTP/1.0. */
  readonly isFirstVersion: boolean;
  /** With its line end. */
  readonly length: number;
}

/** Nearly every answer begins with this line. */
const usualLine = { text: "HTTP/1.1 200 OK\r\n", status: 200, isFirstVersion: false, length: 17 };

/** Throws ProtocolError. */
function readStatusLine(text: string): StatusLine {
  const end = text.indexOf("\r\n");
  const match = /^HTTP\/1\.([01]) (\d{3})(?: .*)?$/.exec(end < 0 ? text : text.slice(0, end));
  if (match === null) throw new ProtocolError("the answer is not HTTP/1.1");
  return { status: Number(match[2]), isFirstVersion: match[1] === "0", length: end < 0 ? text.length : end + 2 };
}

/** The size in `1a2b` or `1a2b; extension`, where blanks may precede the semicolon. Throws ProtocolError. */
function chunkSize(bytes: Buffer, from: number, end: number): number {
  const size = /^([0-9A-Fa-f]{1,12})(?:[ \t]*;.*)?$/.exec(bytes.toString("latin1", from, end))?.[1];
  if (size === undefined) throw new ProtocolError("a chunk has no size");
  return Number.parseInt(size, 16);
}

interface KnownHeaders {
  contentType: string | undefined;
  contentLength: string | undefined;
  transferEncoding: string | undefined;
  connection: string | undefined;
}

/** The headers from `from` on. Every line is checked, and four headers are kept. Throws ProtocolError. */
function readHeaders(text: string, from: number): KnownHeaders {
  const known: KnownHeaders = {
    contentType: undefined,
    contentLength: undefined,
    transferEncoding: undefined,
    connection: undefined,
  };
  let start = from;
  while (start < text.length) {
    let at = start;
    while (nameBytes[text.charCodeAt(at)] === 1) at += 1;
    if (at === start || text.charCodeAt(at) !== colon) throw new ProtocolError("a header line is malformed");
    const lineFeed = text.indexOf("\r\n", at);
    const end = lineFeed < 0 ? text.length : lineFeed;
    const key = knownHeader(text, start, at);
    if (key !== undefined) {
      const value = text.slice(at + 1, end).trim();
      const before = known[key];
      known[key] = before === undefined ? value : `${before}, ${value}`;
    }
    start = end + 2;
  }
  return known;
}

/** Compares the length first: most names need no further comparison. */
function knownHeader(text: string, start: number, end: number): keyof KnownHeaders | undefined {
  switch (end - start) {
    case 10:
      return isName(text, start, "connection") ? "connection" : undefined;
    case 12:
      return isName(text, start, "content-type") ? "contentType" : undefined;
    case 14:
      return isName(text, start, "content-length") ? "contentLength" : undefined;
    case 17:
      return isName(text, start, "transfer-encoding") ? "transferEncoding" : undefined;
    default:
      return undefined;
  }
}

/** `name` is in lower case. Of the characters of a header's name, this bit tells only the two cases of a letter apart. */
function isName(text: string, start: number, name: string): boolean {
  for (let at = 0; at < name.length; at++)
    if ((text.charCodeAt(start + at) | 0x20) !== name.charCodeAt(at)) return false;
  return true;
}
