import type { BenchmarkView, ModelBenchmark } from "../../api/management/benchmark-view.ts";
import type { SlotStatus } from "../../api/status.ts";
import type { KnownSlot } from "../routing/index.ts";

/** The whole of a slot's last load; null before the first one has ended. */
export function loadSecondsOf(load: SlotStatus["lastLoad"]): number | null {
  if (load?.warmSeconds === undefined) return null;
  return Math.round(((load.startSeconds ?? 0) + load.warmSeconds + (load.pullSeconds ?? 0)) * 1000) / 1000;
}

export function benchmarkView(last: SlotStatus["lastBenchmark"]): BenchmarkView | null {
  if (last === undefined) return null;
  return {
    measured_at: last.measuredAt,
    model: last.model ?? null,
    backend: last.backend,
    runtime: last.runtime,
    load_seconds: last.loadSeconds ?? null,
    max_tokens: last.maxTokens,
    levels: last.levels.map((level) => ({
      clients: level.clients,
      requests: level.requests,
      first_token_ms: level.firstTokenMs ?? null,
      slowest_first_token_ms: level.slowestFirstTokenMs ?? null,
      tokens_per_second_each: level.tokensPerSecondEach ?? null,
      tokens_per_second: level.tokensPerSecond,
    })),
    changed: last.changed ?? null,
  };
}

/** The latest result of that model that is not void, of any of these slots. */
export function benchmarkOfModel(slots: Iterable<KnownSlot>, ref: string): ModelBenchmark {
  let latest: ModelBenchmark = null;
  for (const { name, status } of slots) {
    const last = status?.lastBenchmark;
    if (last?.model !== ref || last.changed !== undefined) continue;
    const view = benchmarkView(last);
    if (view !== null && (latest === null || view.measured_at > latest.measured_at)) latest = { slot: name, ...view };
  }
  return latest;
}
