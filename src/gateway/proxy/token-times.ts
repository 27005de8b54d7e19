import { steadyNow } from "../../lib/steady-clock.ts";
import type { SlotMetrics } from "../telemetry/metrics.ts";
import type { EngineFigures } from "../telemetry/request-record.ts";

/** The tokens of one stream, as they arrive from the engine. */
export class TokenTimes {
  readonly #metrics: Pick<SlotMetrics, "betweenTokens" | "tokensOut">;
  #lastAt = 0;
  /** So many are in the slot's metrics already. */
  count = 0;

  constructor(metrics: Pick<SlotMetrics, "betweenTokens" | "tokensOut">) {
    this.#metrics = metrics;
  }

  /** Counted at once: an answer may take minutes. Tokens that arrive together took equal parts of the time. */
  arrived(count: number): void {
    const now = steadyNow();
    if (this.count > 0) this.#metrics.betweenTokens.observeEach((now - this.#lastAt) / 1000 / count, count);
    this.#lastAt = now;
    this.count += count;
    this.#metrics.tokensOut.value += count;
  }
}

/**
 * At the end of an answer, of which `arrived` tokens are counted already. `tokensOut`, the engine's own count, can only add to
 * them: a counter does not fall.
 */
export function countTokens(
  metrics: Pick<SlotMetrics, "tokensIn" | "tokensOut">,
  { tokensIn = 0, tokensOut = 0 }: Pick<EngineFigures, "tokensIn" | "tokensOut">,
  arrived = 0,
): void {
  metrics.tokensIn.value += tokensIn;
  metrics.tokensOut.value += Math.max(0, tokensOut - arrived);
}
