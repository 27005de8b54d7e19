import { ApiError } from "../../api/errors.ts";
import { release } from "../../lib/release.ts";

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

  /** Throws ApiError `system.overloaded` where the sum is too large. */
  check(): void {
    this.take(0);
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}

/** So many bytes of a request cost no more than its connection. */
const smallBytes = 16_384;

/** One request's share of the budget, until it releases its bytes. */
export class Charge {
  readonly #budget: BufferBudget;
  #bytes = 0;
  #buffer: Buffer | undefined;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /** Throws ApiError `system.overloaded`, and counts nothing, when the sum would be too large. */
  take(bytes: number): void {
    this.#budget.take(bytes);
    this.#bytes += bytes;
  }

  /** Like `take`, for bytes that are all there: a few of them are counted in any case. */
  takeWhole(bytes: number): void {
    if (bytes > smallBytes) return this.take(bytes);
    this.#budget.add(bytes);
    this.#bytes += bytes;
  }

  /** Before the request waits with its bytes. Throws ApiError `system.overloaded` where there are too many. */
  check(): void {
    if (this.#bytes > 0) this.#budget.check();
  }

  /** A smaller buffer replaced the kept one. */
  reduceTo(bytes: number): void {
    if (bytes >= this.#bytes) return;
    this.#budget.give(this.#bytes - bytes);
    this.#bytes = bytes;
  }

  /** The charged bytes are this buffer, which only the request refers to. To release a small one costs more than it is worth. */
  holds(buffer: Buffer): void {
    if (this.#bytes > smallBytes) this.#buffer = buffer;
  }

  /**
   * Releases all bytes. `isUnused`: nothing reads the buffer now, not even a socket; its memory is released at
   * once.
   */
  end(isUnused = false): void {
    if (this.#bytes > 0) this.#budget.give(this.#bytes);
    this.#bytes = 0;
    if (isUnused && this.#buffer !== undefined) release(this.#buffer);
    this.#buffer = undefined;
  }
}

/** The charge of a request that keeps no bytes of its own. */
export const noCharge = new Charge(new BufferBudget(0));
