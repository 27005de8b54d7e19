import { Socket } from "node:net";
import { errorCode } from "../lib/error-code.ts";

type Callback = (error?: Error | null) => void;

/**
 * A socket that stays readable when a write fails. An engine that refuses a request before it has read all of it closes
 * the connection: the rest cannot be written, but the answer lies in the kernel. `net.Socket` is destroyed by its first
 * failed write, and loses what it has not read. This socket drops the rest of the request, and ends with its reading:
 * after a failed write the kernel always has an end or an error behind the last byte.
 */
export class EngineSocket extends Socket {
  #failure: Error | undefined;
  /** The kernel has no byte of the present request, and the connection has served another before. */
  #isUnasked = false;
  /** A stream has one write at a time, so that no write needs a closure of its own. */
  #callback: Callback | undefined;
  readonly #written: Callback = (error) => {
    const callback = this.#callback;
    this.#callback = undefined;
    if (error !== undefined && error !== null && !this.destroyed && !this.#isUnasked) {
      this.#failure = error;
      callback?.();
      return;
    }
    this.#isUnasked = false;
    callback?.(error);
  };

  /** A write has failed: the engine gets no more of the request, and no other request can follow. */
  get isCut(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * The connection was reset, so that its end does not show that an answer without a length is complete. EPIPE says that
   * the engine had ended its side before. Only the write has got this error: the reading then sees a plain end.
   */
  get wasReset(): boolean {
    return this.#failure !== undefined && errorCode(this.#failure) !== "EPIPE";
  }

  /**
   * Another request follows over this connection. Until the kernel has a byte of it, no byte that came is its answer:
   * a write that fails before that destroys the socket.
   */
  reuse(): void {
    this.#isUnasked = true;
  }

  override _write(chunk: unknown, encoding: BufferEncoding, callback: Callback): void {
    if (this.#isDropped(callback)) return;
    super._write(chunk, encoding, this.#written);
    this.#isUnasked = false;
  }

  override _writev(chunks: { chunk: unknown; encoding: BufferEncoding }[], callback: Callback): void {
    if (this.#isDropped(callback)) return;
    super._writev?.(chunks, this.#written);
    this.#isUnasked = false;
  }

  #isDropped(callback: Callback): boolean {
    if (this.#failure === undefined) {
      this.#callback = callback;
      return false;
    }
    callback();
    return true;
  }
}
