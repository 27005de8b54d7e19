import type { PartialFile } from "./partial-file.ts";

const bufferBytes = 1024 * 1024;
/** The longest chunk that is not read into a buffer of a writer: the read buffer of connections, and a header before it. */
const longestChunk = 256 * 1024;

/**
 * Collects the bytes of one connection, and writes them in order. One buffer is filled while the other is written, so
 * the memory of a connection does not depend on its speed.
 */
export class RangeWriter {
  readonly #partial: Pick<PartialFile, "write">;
  readonly #buffers: [Buffer, Buffer] = [Buffer.allocUnsafeSlow(bufferBytes), Buffer.allocUnsafeSlow(bufferBytes)];
  readonly #writing: [Promise<void> | undefined, Promise<void> | undefined] = [undefined, undefined];
  #current: 0 | 1 = 0;
  #filled = 0;
  #position = 0;
  #end = 0;
  #error: unknown;
  #onRoom: (() => void) | undefined;

  constructor(partial: Pick<PartialFile, "write">) {
    this.#partial = partial;
  }

  begin({ from, to }: { readonly from: number; readonly to: number }): void {
    this.#position = from;
    this.#end = to;
    this.#filled = 0;
  }

  /** The position of the next byte; equal to the end once the whole range was received. */
  get position(): number {
    return this.#position;
  }

  get isWhole(): boolean {
    return this.#position === this.#end;
  }

  /**
   * The place of the next bytes: a connection that reads into it saves the copy of `push`. Valid until the next `push`;
   * undefined: no byte is missing, or the buffer is being written.
   */
  room(): Buffer | undefined {
    const bytes = Math.min(bufferBytes - this.#filled, this.#end - this.#position);
    if (bytes === 0 || this.#writing[this.#current] !== undefined) return undefined;
    return this.#buffers[this.#current].subarray(this.#filled, this.#filled + bytes);
  }

  /**
   * Copies a chunk, and no byte beyond the range. False: no more may be pushed until `onRoom` was called. Throws
   * the error of the last write.
   */
  push(chunk: Buffer, onRoom: () => void): boolean {
    if (this.#error !== undefined) throw this.#error;
    for (let at = 0; at < chunk.length && !this.isWhole;) {
      const buffer = this.#buffers[this.#current];
      const taken = Math.min(bufferBytes - this.#filled, this.#end - this.#position, chunk.length - at);
      const isThere = chunk.buffer === buffer.buffer && chunk.byteOffset + at === buffer.byteOffset + this.#filled;
      if (!isThere) chunk.copy(buffer, this.#filled, at, at + taken);
      at += taken;
      this.#filled += taken;
      this.#position += taken;
      if (this.#filled === bufferBytes || this.isWhole) this.#flush();
    }
    const other = this.#writing[this.#current === 0 ? 1 : 0];
    const isFull = this.#writing[this.#current] !== undefined;
    if (!isFull && (other === undefined || bufferBytes - this.#filled > longestChunk)) return true;
    this.#onRoom = onRoom;
    return false;
  }

  /** Resolves once all full buffers are written. Rejects with the error of a write. */
  async settled(): Promise<void> {
    for (const writing of this.#writing) await writing;
    if (this.#error !== undefined) throw this.#error;
  }

  #flush(): void {
    const which = this.#current;
    const bytes = this.#buffers[which].subarray(0, this.#filled);
    const from = this.#position - this.#filled;
    this.#filled = 0;
    this.#current = which === 0 ? 1 : 0;
    this.#writing[which] = this.#write(from, bytes, this.#writing[this.#current]).finally(() => {
      this.#writing[which] = undefined;
      const onRoom = this.#onRoom;
      this.#onRoom = undefined;
      onRoom?.();
    });
  }

  /** The partial file takes the bytes of a range in order: a write waits for the one before it. */
  async #write(from: number, bytes: Buffer, before: Promise<void> | undefined): Promise<void> {
    try {
      await before;
      if (this.#error === undefined) await this.#partial.write(from, bytes);
    } catch (error) {
      this.#error ??= error;
    }
  }
}
