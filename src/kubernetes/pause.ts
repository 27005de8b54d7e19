import { setTimeout as delay } from "node:timers/promises";
import { steadyNow } from "../lib/steady-clock.ts";
import { ApiError } from "./api-error.ts";

/** The time for which an API server that is asked too much wants to hear nothing more from this client. */
export class Pause {
  #untilMs = -Infinity;

  /** From now on, unless it is to last longer already. */
  begin(seconds: number): void {
    this.#untilMs = Math.max(this.#untilMs, steadyNow() + seconds * 1000);
  }

  /** Waits for its end. Rejects with ApiError 429 at once where `limitMs`, of the steady clock, is earlier. */
  async over(limitMs: number, signal: AbortSignal | undefined): Promise<void> {
    for (;;) {
      const restMs = this.#untilMs - steadyNow();
      if (restMs <= 0) return;
      const seconds = Math.ceil(restMs / 1000);
      if (this.#untilMs > limitMs)
        throw new ApiError(429, "TooManyRequests", `the API server wants no request for another ${seconds} s`, {
          retryAfterSeconds: seconds,
        });
      await delay(restMs, undefined, signal === undefined ? {} : { signal });
    }
  }
}
