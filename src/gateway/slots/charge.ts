import { release } from "../../lib/release.ts";
import { BufferBudget } from "./budget.ts";

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

  /** A smaller buffer replaced the kept one. */
  reduceTo(bytes: number): void {
    if (bytes >= this.#bytes) return;
    this.#budget.give(this.#bytes - bytes);
    this.#bytes = bytes;
  }

  /** The charged bytes are this buffer, which only the request refers to. */
  holds(buffer: Buffer): void {
    if (this.#bytes > 0) this.#buffer = buffer;
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
