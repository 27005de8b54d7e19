/** What an HTTP/1.1 response begins with. Header names are in lower case; repeated ones are joined with a comma. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** The connection may carry another request afterwards. */
  readonly isKeptAlive: boolean;
}

export interface ResponseEvents {
  onHead(head: ResponseHead): void;
  onData(chunk: Buffer): void;
  onEnd(): void;
}

/** The bytes are no HTTP/1.1 response. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

const headLimitBytes = 65_536;
const lineLimitBytes = 8192;
const headEnd = Buffer.from("\r\n\r\n");
const lineEnd = Buffer.from("\r\n");

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

  /** Makes ready for the next response on the same connection. */
  reset(): void {
    this.#state = "head";
    this.#hasBegun = false;
    this.#held = undefined;
    this.#isKeptAlive = true;
  }

  /** Throws ProtocolError. */
  push(chunk: Buffer): void {
    this.#hasBegun = true;
    let rest = this.#held === undefined ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = undefined;
    while (rest.length > 0) {
      const used = this.#step(rest);
      if (used < 0) {
        this.#held = rest;
        return;
      }
      rest = rest.subarray(used);
      if (this.#state !== "done") continue;
      // Whoever hears of the end may send the next request at once, and these bytes are no answer to it.
      if (rest.length > 0) this.#isKeptAlive = false;
      this.#events.onEnd();
      if (rest.length > 0) throw new ProtocolError("bytes came after the response");
      return;
    }
  }

  /** The peer closed. Throws ProtocolError when the response was not whole. */
  end(): void {
    if (this.#state === "close") {
      this.#state = "done";
      this.#events.onEnd();
      return;
    }
    if (this.#state !== "done") throw new ProtocolError("the connection closed within a response");
  }

  /** Consumes a part of `bytes`; -1 when more are needed. */
  #step(bytes: Buffer): number {
    switch (this.#state) {
      case "head":
        return this.#head(bytes);
      case "length":
      case "chunkData": {
        const length = Math.min(this.#left, bytes.length);
        this.#left -= length;
        this.#events.onData(length === bytes.length ? bytes : bytes.subarray(0, length));
        if (this.#left === 0) {
          this.#state = this.#state === "length" ? "done" : "chunkEnd";
        }
        return length;
      }
      case "chunkSize": {
        const at = this.#lineAt(bytes);
        if (at < 0) return -1;
        const size = /^([0-9A-Fa-f]{1,12})(?:[ \t]*;.*)?$/.exec(bytes.toString("latin1", 0, at))?.[1];
        if (size === undefined) throw new ProtocolError("a chunk has no size");
        this.#left = Number.parseInt(size, 16);
        this.#state = this.#left === 0 ? "trailer" : "chunkData";
        return at + 2;
      }
      case "chunkEnd":
        if (bytes.length < 2) return -1;
        if (bytes[0] !== 0x0d || bytes[1] !== 0x0a) throw new ProtocolError("a chunk is longer than its size");
        this.#state = "chunkSize";
        return 2;
      case "trailer": {
        const at = this.#lineAt(bytes);
        if (at < 0) return -1;
        if (at === 0) this.#state = "done";
        return at + 2;
      }
      case "close":
        this.#events.onData(bytes);
        return bytes.length;
      case "done":
        throw new ProtocolError("bytes came after the response");
      default:
        return this.#state satisfies never;
    }
  }

  #lineAt(bytes: Buffer): number {
    const at = bytes.indexOf(lineEnd);
    if (at < 0 && bytes.length > lineLimitBytes) throw new ProtocolError("a line is too long");
    return at;
  }

  #head(bytes: Buffer): number {
    const at = bytes.indexOf(headEnd);
    if (at < 0) {
      if (bytes.length > headLimitBytes) throw new ProtocolError("the header is too large");
      if (bytes.length >= 5 && bytes.toString("latin1", 0, 5) !== "HTTP/")
        throw new ProtocolError("the answer is not HTTP");
      return -1;
    }
    const [statusLine = "", ...lines] = bytes.toString("latin1", 0, at).split("\r\n");
    const match = /^HTTP\/1\.([01]) (\d{3})(?: .*)?$/.exec(statusLine);
    if (match === null) throw new ProtocolError("the answer is not HTTP/1.1");
    const status = Number(match[2]);
    const headers = new Map<string, string>();
    for (const line of lines) {
      const colonAt = line.indexOf(":");
      const name = line.slice(0, colonAt).toLowerCase();
      if (colonAt < 1 || !/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name))
        throw new ProtocolError("a header line is malformed");
      const value = line.slice(colonAt + 1).trim();
      const before = headers.get(name);
      headers.set(name, before === undefined ? value : `${before}, ${value}`);
    }
    // 100 and 103 only announce the answer; 101 would make it another protocol.
    if (status === 101) throw new ProtocolError("the answer switches protocols");
    if (status < 200) return at + 4;
    const connection = headers.get("connection")?.toLowerCase() ?? "";
    this.#isKeptAlive = match[1] === "1" ? !/\bclose\b/.test(connection) : /\bkeep-alive\b/.test(connection);
    this.#body(status, headers);
    this.#events.onHead({ status, headers, isKeptAlive: this.#isKeptAlive });
    return at + 4;
  }

  #body(status: number, headers: ReadonlyMap<string, string>): void {
    const encoding = headers.get("transfer-encoding")?.toLowerCase();
    const length = headers.get("content-length");
    if (encoding !== undefined && length !== undefined) throw new ProtocolError("the answer has two lengths");
    if (encoding !== undefined && encoding !== "chunked")
      throw new ProtocolError(`the answer is encoded as ${encoding}`);
    if (length !== undefined && !/^\d{1,15}$/.test(length)) throw new ProtocolError("the answer's length is malformed");
    if (status === 204 || status === 304 || length === "0") this.#state = "done";
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
