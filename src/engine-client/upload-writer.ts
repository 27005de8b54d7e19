import type { Socket } from "node:net";

const lineEnd = "\r\n";

/** Writes the body of a request while it arrives, in chunks without a known length (RFC 9112, 7.1). */
export class UploadWriter {
  readonly #socket: Socket;
  readonly #isChunked: boolean;

  constructor(socket: Socket, isChunked: boolean) {
    this.#socket = socket;
    this.#isChunked = isChunked;
  }

  head(text: string): void {
    this.#socket.write(text, "latin1");
  }

  /** Resolves when the kernel has the chunk, or when the connection is closed. */
  async write(chunk: Buffer): Promise<void> {
    // An empty chunk would be the end.
    if (chunk.length === 0) return;
    await new Promise<void>((resolve) => {
      const taken = (): void => resolve();
      if (!this.#isChunked) {
        this.#socket.write(chunk, taken);
        return;
      }
      this.#socket.cork();
      this.#socket.write(chunk.length.toString(16) + lineEnd, "latin1");
      this.#socket.write(chunk);
      this.#socket.write(lineEnd, "latin1", taken);
      this.#socket.uncork();
    });
  }

  end(): void {
    if (this.#isChunked) this.#socket.write(`0${lineEnd}${lineEnd}`, "latin1");
  }
}
