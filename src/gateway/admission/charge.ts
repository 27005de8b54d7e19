import { release } from "../../lib/release.ts";
import { BufferBudget } from "./budget.ts";

/** What one request takes of the budget, until what it keeps is let go. */
export class Charge {
  readonly #budget: BufferBudget;
  #bytes = 0;
  #buffer: Buffer | undefined;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  /** Those of `bytes` that are kept and not charged: all or none. */
  uncounted(bytes: number): number {
    return this.#bytes > 0 ? 0 : bytes;
  }

  /** Throws ApiError `system.overloaded`, and takes nothing, when it would be too much. */
  take(bytes: number): void {
    this.#budget.take(bytes);
    this.#bytes += bytes;
  }

  /** Something smaller took the place of what was kept. */
  reduceTo(bytes: number): void {
    if (bytes >= this.#bytes) return;
    this.#budget.give(this.#bytes - bytes);
    this.#bytes = bytes;
  }

  /** What was taken is this buffer, which nobody but the request has. */
  holds(buffer: Buffer): void {
    if (this.#bytes > 0) this.#buffer = buffer;
  }

  /** Nothing is kept any more. `isUnused`: nobody reads the buffer now, not even a socket; its memory is free at once. */
  end(isUnused = false): void {
    if (this.#bytes > 0) this.#budget.give(this.#bytes);
    this.#bytes = 0;
    if (isUnused && this.#buffer !== undefined) release(this.#buffer);
    this.#buffer = undefined;
  }
}

/** Of a request that keeps nothing of its own. */
export const noCharge = new Charge(new BufferBudget(0));
