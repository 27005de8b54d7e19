import type { SlotView } from "../../src/api/management/views.ts";
import { ago } from "../shared/format.ts";

type Failing = Pick<SlotView, "state" | "recent_failures" | "last_error">;

/** When the slot failed last; undefined where it has not failed within a day, and is no failed slot. */
function failedAt({ state, recent_failures: recent, last_error: error }: Failing): string | undefined {
  return recent?.time ?? (state === "error" ? error?.time : undefined);
}

/** E.g. `failed 14 min ago, 3 times in 24 h`; undefined where there is no failure to tell of. */
export function failureText(slot: Failing, now: number): string | undefined {
  const at = failedAt(slot);
  const count = slot.recent_failures?.count ?? 1;
  if (at === undefined) return undefined;
  return `failed ${ago(at, now)}${count > 1 ? `, ${count} times in 24 h` : ""}`;
}

/** The slots that have failed: those that are failed now first, then those that have recovered; the last failure first in each. */
export function failedSlots(slots: readonly SlotView[]): readonly SlotView[] {
  const isFailed = ({ state }: SlotView): number => (state === "error" ? 0 : 1);
  const time = (slot: SlotView): string => failedAt(slot) ?? "";
  return slots
    .filter((slot) => slot.state === "error" || slot.recent_failures !== null)
    .toSorted((one, other) => isFailed(one) - isFailed(other) || (time(one) < time(other) ? 1 : -1));
}
