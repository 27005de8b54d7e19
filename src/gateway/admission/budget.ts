import { ApiError } from "../../api/errors.ts";

/** Bounds what all held bodies, shared streams and spooled parts may take together (`SVC_BUFFER_LIMIT`). */
export class BufferBudget {
  readonly #limitBytes: number;
  #usedBytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Takes it in any case, for what has come already. False when it is too much: make room. */
  add(bytes: number): boolean {
    this.#usedBytes += bytes;
    return this.#usedBytes <= this.#limitBytes;
  }

  /** Throws ApiError `system.overloaded`, and takes nothing, when it would be too much. */
  take(bytes: number): void {
    if (this.#usedBytes + bytes <= this.#limitBytes) {
      this.#usedBytes += bytes;
      return;
    }
    throw new ApiError("system.overloaded", {
      message: "too many large requests wait at once; see SVC_BUFFER_LIMIT",
      headers: { "retry-after": "5" },
    });
  }

  give(bytes: number): void {
    this.#usedBytes -= bytes;
  }
}
