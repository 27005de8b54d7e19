/** The size of a piece, in bytes. */
export const pieceBytes = 256 * 1024;

/** A line that is made when it is written: many in a row take less time than as many between other work (docs/performance.md). */
export interface LateLine {
  /** `put` takes no more bytes. */
  readonly mostBytes: number;
  /** Writes the line with its end into memory from `at` on, and returns where it ends. */
  put(memory: Buffer, at: number): number;
  /** The same as text. */
  text(): string;
}

/**
 * Lines in their order, put together into pieces of memory as they come: lines that wait as texts would be copied by each of V8's
 * young collections. A line is never divided; a line that is larger than a piece is a piece of its own.
 */
export class LinePieces {
  #full: Buffer[] = [];
  #last: Buffer | undefined;
  /** The memory of a piece that was written. Pieces of new memory take a third more processor time (docs/performance.md). */
  #spare: Buffer | undefined;
  /** The used bytes of the last piece. */
  #used = 0;

  get isEmpty(): boolean {
    return this.#full.length === 0 && this.#used === 0;
  }

  /** The number of the line's bytes. */
  add(line: string): number {
    if (this.#used + line.length * 3 > pieceBytes) {
      const bytes = Buffer.byteLength(line);
      if (this.#used + bytes > pieceBytes) {
        this.#close();
        if (bytes > pieceBytes) {
          this.#full.push(Buffer.from(line));
          return bytes;
        }
      }
    }
    const written = this.#open().write(line, this.#used);
    this.#used += written;
    return written;
  }

  /** The number of the line's bytes; undefined: they are more than `roomBytes`, and the line is not added. */
  addLate(line: LateLine, roomBytes: number): number | undefined {
    const { mostBytes } = line;
    if (mostBytes > pieceBytes) {
      const text = line.text();
      return Buffer.byteLength(text) <= roomBytes ? this.add(text) : undefined;
    }
    if (this.#used + mostBytes > pieceBytes) this.#close();
    const written = line.put(this.#open(), this.#used) - this.#used;
    if (written > roomBytes) return undefined;
    this.#used += written;
    return written;
  }

  /** The oldest piece. */
  take(): Buffer | undefined {
    const oldest = this.#full.shift();
    if (oldest !== undefined) return oldest;
    this.#close();
    return this.#full.shift();
  }

  /** From now on the memory of a piece, whole or the end of it, may be overwritten. */
  giveBack({ buffer }: Buffer): void {
    if (buffer.byteLength === pieceBytes) this.#spare = Buffer.from(buffer);
  }

  clear(): void {
    this.#full = [];
    this.#used = 0;
  }

  #open(): Buffer {
    if (this.#last === undefined) {
      this.#last = this.#spare ?? Buffer.allocUnsafeSlow(pieceBytes);
      this.#spare = undefined;
    }
    return this.#last;
  }

  #close(): void {
    if (this.#last === undefined || this.#used === 0) return;
    this.#full.push(this.#last.subarray(0, this.#used));
    this.#last = undefined;
    this.#used = 0;
  }
}
