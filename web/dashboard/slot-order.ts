import type { SlotView } from "../../src/api/management/views.ts";
import { stateWords } from "../../src/api/state-words.ts";

/** Whether a manifest gives the slot something to do: built-in slots are there without one. */
export function isSetUp({ conditions }: Pick<SlotView, "conditions">): boolean {
  return !conditions.some(({ reason }) => reason === "NotConfigured");
}

const ranks = { bad: 0, busy: 1, info: 2, good: 3, lent: 4, off: 5 } as const;

/** Compares names. Made once: a thousand slots are sorted with each burst of events. */
export const byName = new Intl.Collator("en");

/** Orders slots for a list: those that need a person, then loading, answering, ready, and unloaded ones; by name within each. */
export function inOrder(slots: readonly SlotView[]): readonly SlotView[] {
  return slots
    .map((slot) => ({ slot, rank: ranks[stateWords(slot).tone] }))
    .toSorted((one, other) => one.rank - other.rank || byName.compare(one.slot.name, other.slot.name))
    .map(({ slot }) => slot);
}
