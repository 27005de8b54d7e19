import { release } from "./release.ts";

const smallestPartBytes = 4096;
const largestPartBytes = 1024 * 1024;

/**
 * Bytes that arrive in pieces and are needed in one buffer. The pieces are copied into a few large parts: a piece of
 * one byte costs one byte, not an object, and no byte is copied more than twice. The allocation is at most 4 KiB more
 * than twice the size of the pieces.
 */
export class GatheredBytes {
  #parts: Buffer[] = [];
  /** Used bytes of the last part. */
  #lastBytes = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Keeps the first piece without a copy; false: the caller must not change `piece` any more. True: it was copied. */
  add(piece: Buffer): boolean {
    if (piece.length === 0) return true;
    if (this.#size === 0) {
      this.#parts = [piece];
      this.#lastBytes = piece.length;
      this.#size = piece.length;
      return false;
    }
    let copied = 0;
    while (copied < piece.length) {
      const last = this.#parts.at(-1);
      if (last === undefined || this.#lastBytes === last.length) this.#grow();
      else {
        const count = piece.copy(last, this.#lastBytes, copied);
        copied += count;
        this.#lastBytes += count;
      }
    }
    this.#size += piece.length;
    return true;
  }

  /** All bytes in one buffer. Nothing is kept here afterwards. */
  take(): Buffer {
    const [first] = this.#parts;
    if (this.#parts.length === 1 && first !== undefined) {
      this.#forget();
      return first;
    }
    const whole = Buffer.allocUnsafeSlow(this.#size);
    let at = 0;
    for (const [index, part] of this.#parts.entries()) {
      const isLast = index === this.#parts.length - 1;
      at += part.copy(whole, at, 0, isLast ? this.#lastBytes : part.length);
      // Each part is released after its copy, so that the whole takes no more memory than its parts did. The first part
      // belongs to the caller.
      if (index > 0) release(part);
    }
    this.#forget();
    return whole;
  }

  /** Releases the memory at once. */
  clear(): void {
    for (const part of this.#parts.slice(1)) release(part);
    this.#forget();
  }

  #grow(): void {
    this.#parts.push(Buffer.allocUnsafeSlow(Math.min(largestPartBytes, Math.max(smallestPartBytes, this.#size))));
    this.#lastBytes = 0;
  }

  #forget(): void {
    this.#parts = [];
    this.#lastBytes = 0;
    this.#size = 0;
  }
}
