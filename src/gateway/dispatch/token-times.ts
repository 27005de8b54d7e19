import { steadyNow } from "../../lib/steady-clock.ts";
import type { SlotMetrics } from "../telemetry/metrics.ts";

/** The tokens of one stream, as they arrive from the engine. */
export class TokenTimes {
  readonly #metrics: Pick<SlotMetrics, "betweenTokens">;
  #lastAt = 0;
  count = 0;

  constructor(metrics: Pick<SlotMetrics, "betweenTokens">) {
    this.#metrics = metrics;
  }

  /** Tokens that arrive together took equal parts of the time. */
  arrived(count: number): void {
    const now = steadyNow();
    if (this.count > 0) this.#metrics.betweenTokens.observeEach((now - this.#lastAt) / 1000 / count, count);
    this.#lastAt = now;
    this.count += count;
  }
}

export function countTokens(
  metrics: Pick<SlotMetrics, "tokensIn" | "tokensOut">,
  tokensIn: number | undefined,
  tokensOut: number | undefined,
): void {
  metrics.tokensIn.value += tokensIn ?? 0;
  metrics.tokensOut.value += tokensOut ?? 0;
}
