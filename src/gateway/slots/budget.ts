import { ApiError } from "../../api/errors.ts";

/**
 * Bounds the sum of kept bytes: bodies, shared streams and whole answers in memory (`SVC_BUFFER_LIMIT`), or uploads on
 * disk (`SVC_SPOOL_LIMIT`).
 */
export class BufferBudget {
  readonly #limitBytes: number;
  readonly #setting: string;
  #usedBytes = 0;

  constructor(limitBytes: number, setting = "SVC_BUFFER_LIMIT") {
    this.#limitBytes = limitBytes;
    this.#setting = setting;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /**
   * Counts the bytes in any case, for data that has arrived. False when the sum is too large: the caller must make
   * room.
   */
  add(bytes: number): boolean {
    this.#usedBytes += bytes;
    return this.#usedBytes <= this.#limitBytes;
  }

  /** Throws ApiError `system.overloaded`, and counts nothing, when the sum would be too large. */
  take(bytes: number): void {
    if (this.#usedBytes + bytes <= this.#limitBytes) {
      this.#usedBytes += bytes;
      return;
    }
    throw new ApiError("system.overloaded", {
      message: `too many large requests at once; see ${this.#setting}`,
      headers: { "retry-after": "5" },
    });
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}
