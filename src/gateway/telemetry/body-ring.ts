/** The most bytes of all kept bodies together. */
const capacity = 4 * 1024 * 1024;

/** The place of a body in a ring: from a position that only grows. */
export interface KeptBody {
  readonly from: number;
  readonly length: number;
}

/**
 * The last bodies in one piece of memory, where each new body overwrites the oldest. To keep a body is one copy: it leaves
 * nothing behind for V8 to collect.
 */
export class BodyRing {
  #bytes: Buffer | undefined;
  /** Where the next body begins, if there is room before the end of the memory. */
  #end = 0;

  /** Keeps at most `limit` bytes of the body's beginning. */
  keep(body: Buffer, limit: number): KeptBody {
    this.#bytes ??= Buffer.allocUnsafeSlow(capacity);
    const length = Math.min(body.length, limit, capacity);
    const at = this.#end % capacity;
    // A body stays in one piece.
    const from = at + length > capacity ? this.#end - at + capacity : this.#end;
    // `copy` does the same with more checks.
    this.#bytes.set(length === body.length ? body : body.subarray(0, length), from % capacity);
    this.#end = from + length;
    return { from, length };
  }

  /** Undefined: newer bodies have overwritten it. */
  read({ from, length }: KeptBody): Buffer | undefined {
    if (this.#bytes === undefined || from < this.#end - capacity) return undefined;
    const at = from % capacity;
    return this.#bytes.subarray(at, at + length);
  }
}
