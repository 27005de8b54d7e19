/** The size of a piece, in bytes. */
export const pieceBytes = 256 * 1024;

/**
 * Lines in their order, put together into pieces of memory as they come: lines that wait as texts would be copied by each of V8's
 * young collections. A line is never divided; a line that is larger than a piece is a piece of its own.
 */
export class LinePieces {
  #full: Buffer[] = [];
  #last: Buffer | undefined;
  /** The memory of a piece that was written. Pieces of new memory take a third more processor time (docs/performance.md). */
  #spare: Buffer | undefined;
  /** Of the last piece, in bytes. */
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
    if (this.#last === undefined) {
      this.#last = this.#spare ?? Buffer.allocUnsafeSlow(pieceBytes);
      this.#spare = undefined;
    }
    const written = this.#last.write(line, this.#used);
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

  #close(): void {
    if (this.#last === undefined || this.#used === 0) return;
    this.#full.push(this.#last.subarray(0, this.#used));
    this.#last = undefined;
    this.#used = 0;
  }
}
