import type { RequestBody, Upload } from "../../lib/exchange.ts";

/** The body of a request to a provider through all its attempts. */
export class OutgoingBody {
  #body: RequestBody | undefined;
  #upload: Upload | undefined;
  #isUsedUp = false;

  /** Undefined: the request has no body. */
  constructor(body: RequestBody | undefined) {
    this.#body = body;
  }

  /** A part of an upload has been read: it cannot be sent again. */
  get isUsedUp(): boolean {
    return this.#isUsedUp;
  }

  /** No other attempt follows. */
  drop(): void {
    this.#body = undefined;
  }

  /**
   * The body of one attempt. An upload is opened once for all of them: an attempt that failed before has read none of
   * it.
   */
  get sent(): RequestBody | undefined {
    const body = this.#body;
    if (typeof body !== "function") return body;
    return () => {
      const { headers, body: chunks } = (this.#upload ??= body());
      return { headers, body: this.#read(chunks) };
    };
  }

  async *#read(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    this.#isUsedUp = true;
    yield* chunks;
  }
}
