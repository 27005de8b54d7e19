import type { PartialFile } from "./partial-file.ts";
import { blockBytes } from "./partial-journal.ts";

/** The longest chunk that is not read into a block: the read buffer of connections, and a header before it. */
const longestChunk = 256 * 1024;

/** The blocks that were received over all connections, and how many times a connection had to wait for the disk. */
export interface BlockCounts {
  blocks: number;
  waits: number;
}

const sharedBlock = (): Buffer => Buffer.from(new SharedArrayBuffer(blockBytes));

/**
 * Collects the bytes of one connection into blocks, and writes them. One buffer is filled while the other is written,
 * so the memory of a connection does not depend on its speed.
 */
export class BlockWriter {
  readonly #partial: PartialFile;
  /** The thread that writes a block reads the block where it lies. */
  readonly #buffers: [Buffer, Buffer] = [sharedBlock(), sharedBlock()];
  readonly #writing: [Promise<void> | undefined, Promise<void> | undefined] = [undefined, undefined];
  #current: 0 | 1 = 0;
  #filled = 0;
  #position = 0;
  #end = 0;
  #error: unknown;
  #onRoom: (() => void) | undefined;
  readonly #counts: BlockCounts;

  constructor(partial: PartialFile, counts: BlockCounts) {
    this.#partial = partial;
    this.#counts = counts;
  }

  /** Begins a range that starts at a block boundary. */
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
   * undefined: no byte is missing, or the block is being written.
   */
  room(): Buffer | undefined {
    const bytes = Math.min(blockBytes - this.#filled, this.#end - this.#position);
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
      const block = this.#buffers[this.#current];
      const taken = Math.min(blockBytes - this.#filled, this.#end - this.#position, chunk.length - at);
      const isThere = chunk.buffer === block.buffer && chunk.byteOffset + at === block.byteOffset + this.#filled;
      if (!isThere) chunk.copy(block, this.#filled, at, at + taken);
      at += taken;
      this.#filled += taken;
      this.#position += taken;
      if (this.#filled === blockBytes || this.isWhole) this.#flush();
    }
    const other = this.#writing[this.#current === 0 ? 1 : 0];
    const isFull = this.#writing[this.#current] !== undefined;
    if (!isFull && (other === undefined || blockBytes - this.#filled > longestChunk)) return true;
    this.#onRoom = onRoom;
    this.#counts.waits += 1;
    return false;
  }

  /** Resolves once all pushed bytes are on disk. Rejects with the error of the write. */
  async settled(): Promise<void> {
    for (const writing of this.#writing) await writing;
    if (this.#error !== undefined) throw this.#error;
  }

  #flush(): void {
    this.#counts.blocks += 1;
    const which = this.#current;
    const block = this.#buffers[which].subarray(0, this.#filled);
    const index = Math.floor((this.#position - 1) / blockBytes);
    this.#filled = 0;
    this.#current = which === 0 ? 1 : 0;
    this.#writing[which] = this.#write(index, block).finally(() => {
      this.#writing[which] = undefined;
      const onRoom = this.#onRoom;
      this.#onRoom = undefined;
      onRoom?.();
    });
  }

  async #write(index: number, block: Buffer): Promise<void> {
    try {
      await this.#partial.write(index, block);
    } catch (error) {
      this.#error ??= error;
    }
  }
}
