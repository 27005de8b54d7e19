/** The bytes are no `multipart/form-data` body. The message may be shown to their sender. */
export class MultipartError extends Error {
  override readonly name = "MultipartError";
}

export interface MultipartPart {
  readonly name: string;
  readonly filename: string | undefined;
  readonly contentType: string | undefined;
}

export interface MultipartEvents {
  onPart(part: MultipartPart): void;
  /** Bytes of the present part, valid until the call returns. */
  onData(bytes: Buffer): void;
  onPartEnd(): void;
}

const headLimitBytes = 16_384;
const partLimit = 100;
const lineEnd = Buffer.from("\r\n");
const headEnd = Buffer.from("\r\n\r\n");

/** The boundary in a content type; undefined for no form or no boundary (RFC 2046, section 5.1.1). */
export function boundaryOf(contentType: string): string | undefined {
  if (!/^multipart\/form-data\s*(;|$)/i.test(contentType)) return undefined;
  const match = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70})(?=[\s;]|$))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2];
  return boundary !== undefined && /^[\w'()+,./:=? -]*[\w'()+,./:=?-]$/.test(boundary) ? boundary : undefined;
}

/**
 * Reads a form (RFC 7578) from a byte stream, split in any way. Strict: a part without a name, a header that is none
 * and a missing end are errors, so that nothing is lost in silence. Keeps at most one part's header and a boundary's
 * length of bytes.
 *
 *   preamble ─▶ delimiter ─▶ head ─▶ data ─▶ delimiter … ─▶ epilogue (ignored)
 */
export class MultipartParser {
  readonly #events: MultipartEvents;
  readonly #delimiter: Buffer;
  // The first delimiter may stand at the very beginning, without the line end that belongs to the later ones.
  #held: Buffer = lineEnd;
  #state: "preamble" | "delimiter" | "head" | "data" | "epilogue" = "preamble";
  #parts = 0;

  constructor(boundary: string, events: MultipartEvents) {
    this.#events = events;
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, "latin1");
  }

  /** Keeps nothing of the chunk. Throws MultipartError. */
  push(chunk: Buffer): void {
    let rest = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    this.#held = empty;
    while (rest.length > 0) {
      const used = this.#step(rest);
      if (used === 0) {
        // A copy, since the chunk's buffer belongs to its sender.
        this.#held = Buffer.from(rest);
        return;
      }
      rest = rest.subarray(used);
    }
  }

  /** The end of the stream. Throws MultipartError when the form is not complete. */
  end(): void {
    if (this.#state !== "epilogue") throw new MultipartError("the form ends before its last boundary");
  }

  /** Consumes a part of `bytes`; 0 when more are needed. */
  #step(bytes: Buffer): number {
    switch (this.#state) {
      case "preamble":
      case "data":
        return this.#until(bytes);
      case "delimiter":
        return this.#afterDelimiter(bytes);
      case "head":
        return this.#head(bytes);
      case "epilogue":
        return bytes.length;
      default:
        return this.#state satisfies never;
    }
  }

  #until(bytes: Buffer): number {
    const at = bytes.indexOf(this.#delimiter);
    const end = at < 0 ? bytes.length - this.#begun(bytes) : at;
    if (this.#state === "data" && end > 0) this.#events.onData(end === bytes.length ? bytes : bytes.subarray(0, end));
    if (at < 0) return end;
    if (this.#state === "data") this.#events.onPartEnd();
    this.#state = "delimiter";
    return at + this.#delimiter.length;
  }

  /** How many of the last bytes may be the beginning of a delimiter. */
  #begun(bytes: Buffer): number {
    for (let at = Math.max(0, bytes.length - this.#delimiter.length + 1); ; at += 1) {
      at = bytes.indexOf(0x0d, at);
      if (at < 0) return 0;
      if (this.#delimiter.subarray(0, bytes.length - at).equals(bytes.subarray(at))) return bytes.length - at;
    }
  }

  #afterDelimiter(bytes: Buffer): number {
    if (bytes.length < 2) return 0;
    if (bytes[0] === 0x2d && bytes[1] === 0x2d) {
      this.#state = "epilogue";
      return 2;
    }
    const at = bytes.indexOf(lineEnd);
    const line = bytes.subarray(0, at < 0 ? bytes.length : at);
    // Senders may pad a delimiter with blanks; any other byte makes it no delimiter.
    if (line.length > 100 || line.some((byte) => byte !== 0x20 && byte !== 0x09 && byte !== 0x0d))
      throw new MultipartError("a boundary is followed by something else");
    if (at < 0) return 0;
    if ((this.#parts += 1) > partLimit) throw new MultipartError(`the form has more than ${partLimit} parts`);
    this.#state = "head";
    return at + 2;
  }

  #head(bytes: Buffer): number {
    if (bytes.length >= 2 && bytes.subarray(0, 2).equals(lineEnd)) throw new MultipartError("a part has no header");
    const at = bytes.indexOf(headEnd);
    if (at > headLimitBytes || (at < 0 && bytes.length > headLimitBytes))
      throw new MultipartError("a part's header is too large");
    if (at < 0) return 0;
    this.#state = "data";
    this.#events.onPart(readHead(bytes.toString("utf8", 0, at)));
    return at + headEnd.length;
  }
}

const empty = Buffer.alloc(0);

function readHead(head: string): MultipartPart {
  const headers = new Map<string, string>();
  for (const line of head.split("\r\n")) {
    const match = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)$/.exec(line);
    if (match === null) throw new MultipartError("a part has a malformed header line");
    headers.set((match[1] ?? "").toLowerCase(), (match[2] ?? "").trim());
  }
  const disposition = headers.get("content-disposition") ?? "";
  const name = parameter(disposition, "name");
  if (!/^form-data\s*(;|$)/i.test(disposition) || name === undefined)
    throw new MultipartError("a part has no content-disposition with a name");
  return {
    name,
    filename: extended(disposition) ?? parameter(disposition, "filename"),
    contentType: headers.get("content-type"),
  };
}

/** `filename*=utf-8''%D0%B7.ogg` (RFC 8187): the name in letters that a plain parameter cannot have; it goes first. */
function extended(disposition: string): string | undefined {
  const text = /^utf-8'[^']*'(.*)$/i.exec(parameter(disposition, "filename*") ?? "")?.[1];
  try {
    return text === undefined ? undefined : decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function parameter(header: string, name: string): string | undefined {
  for (const match of header.matchAll(/;\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/g)) {
    if (match[1]?.toLowerCase() === name) return match[2]?.replaceAll(/\\(["\\])/g, "$1") ?? match[3];
  }
  return undefined;
}
