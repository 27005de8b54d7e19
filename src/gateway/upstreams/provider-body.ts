import { createHash } from "node:crypto";
import { Readable } from "node:stream";

/** A body that is read while it is sent, and therefore only once. */
export interface Upload {
  readonly headers: { readonly "content-type": string; readonly "content-length"?: number };
  /** May throw ApiError, which then ends the request. A chunk is valid until the next is asked for. */
  readonly body: AsyncIterable<Buffer>;
}

/** All of it, to be kept until the provider answers; or an upload, opened when the request is about to be sent. */
export type ProviderBody = readonly Buffer[] | (() => Upload);

/** A body through all tries of its request. */
export class OutgoingBody {
  readonly #body: ProviderBody | undefined;
  readonly #contentType: string;
  #upload: Upload | undefined;
  #isUsedUp = false;
  /** What it keeps in memory. */
  readonly bytes: number;

  /** Undefined: there is none. */
  constructor(body: ProviderBody | undefined, contentType: string) {
    this.#body = body;
    this.#contentType = contentType;
    this.bytes = Array.isArray(body) ? body.reduce((sum: number, part: Buffer) => sum + part.length, 0) : 0;
  }

  /** A part of an upload has been read: it cannot be sent again. */
  get isUsedUp(): boolean {
    return this.#isUsedUp;
  }

  /** Tells one body from another; undefined of an upload, which is not kept. */
  get print(): string | undefined {
    if (typeof this.#body === "function") return undefined;
    const sum = createHash("sha256");
    for (const part of this.#body ?? []) sum.update(part);
    return sum.digest("base64");
  }

  /** As undici takes it. `onSilence`: no chunk of an upload came for `silenceMs` while one was wanted. */
  open(silenceMs: number, onSilence: () => void): { headers: Record<string, string>; body: Buffer | Readable | null } {
    if (this.#body === undefined) return { headers: {}, body: null };
    if (typeof this.#body !== "function") {
      const [only] = this.#body;
      return {
        headers: { "content-type": this.#contentType, "content-length": String(this.bytes) },
        body: this.#body.length === 1 && only !== undefined ? only : Readable.from(this.#body),
      };
    }
    this.#upload ??= this.#body();
    const { "content-type": type, "content-length": length } = this.#upload.headers;
    return {
      headers: { "content-type": type, ...(length !== undefined && { "content-length": String(length) }) },
      body: Readable.from(this.#chunks(this.#upload.body, silenceMs, onSilence), { highWaterMark: 1 }),
    };
  }

  async *#chunks(body: AsyncIterable<Buffer>, silenceMs: number, onSilence: () => void): AsyncGenerator<Buffer> {
    this.#isUsedUp = true;
    let timer = setTimeout(onSilence, silenceMs);
    try {
      for await (const chunk of body) {
        clearTimeout(timer);
        // undici keeps what the system has not taken yet.
        yield Buffer.from(chunk);
        timer = setTimeout(onSilence, silenceMs);
      }
    } finally {
      clearTimeout(timer);
    }
  }
}
