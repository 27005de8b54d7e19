import type { SlotView } from "../../src/api/management/views.ts";
import { ago } from "../shared/format.ts";

type Failing = Pick<SlotView, "state" | "recent_failures" | "last_error">;

/** When the slot failed last; undefined where it has not failed within a day, and is no failed slot. */
function failedAt({ state, recent_failures: recent, last_error: error }: Failing): string | undefined {
  return recent?.time ?? (isFailing({ state, last_error: error }) ? error?.time : undefined);
}

/** Whether it is failed, or is tried again after a failure and may fail again: its error is kept until it has loaded. */
export function isFailing({ state, last_error: error }: Pick<SlotView, "state" | "last_error">): boolean {
  return state === "error" || (error !== null && (state === "starting" || state === "warming"));
}

/** E.g. `failed 14 min ago, 3 times in 24 h, tries again`; undefined where there is no failure to tell of. */
export function failureText(slot: Failing, now: number): string | undefined {
  const at = failedAt(slot);
  const count = slot.recent_failures?.count ?? 1;
  if (at === undefined) return undefined;
  const isTried = isFailing(slot) && slot.state !== "error";
  return `failed ${ago(at, now)}${count > 1 ? `, ${count} times in 24 h` : ""}${isTried ? ", tries again" : ""}`;
}

/** The slots that have failed: those that fail now first, then those that have recovered; the last failure first in each. */
export function failedSlots(slots: readonly SlotView[]): readonly SlotView[] {
  const rank = (slot: SlotView): number => (isFailing(slot) ? 0 : 1);
  const time = (slot: SlotView): string => failedAt(slot) ?? "";
  return slots
    .filter((slot) => isFailing(slot) || slot.recent_failures !== null)
    .toSorted((one, other) => rank(one) - rank(other) || (time(one) < time(other) ? 1 : -1));
}
