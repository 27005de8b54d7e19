import type { LastBenchmark } from "../../api/benchmark.ts";
import type { SlotStatus } from "../../api/status.ts";
import type { KnownSlot } from "../routing/index.ts";

/** The whole of a slot's last load; null before the first one has ended. */
export function loadSecondsOf(load: SlotStatus["lastLoad"]): number | null {
  if (load?.warmSeconds === undefined) return null;
  return Math.round(((load.startSeconds ?? 0) + load.warmSeconds + (load.pullSeconds ?? 0)) * 1000) / 1000;
}

/** The latest result of that model that is not void, of any of these slots, with the slot; undefined: none. */
export function lastOfModel(
  slots: Iterable<KnownSlot>,
  ref: string,
): (LastBenchmark & { readonly slot: string }) | undefined {
  let latest: (LastBenchmark & { readonly slot: string }) | undefined;
  for (const { name, status } of slots) {
    const last = status?.lastBenchmark;
    if (last?.model !== ref || last.changed !== undefined) continue;
    if (latest === undefined || last.measuredAt > latest.measuredAt) latest = { slot: name, ...last };
  }
  return latest;
}
