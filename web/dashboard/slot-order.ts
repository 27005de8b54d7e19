import type { SlotView } from "../../src/api/management/views.ts";
import { stateWords } from "../../src/api/state-words.ts";
import { isAvailable } from "../../src/api/states.ts";
import { isFailing } from "./failures.ts";

/** Whether a manifest gives the slot something to do: built-in slots are there without one. */
export function isSetUp({ conditions }: Pick<SlotView, "conditions">): boolean {
  return !conditions.some(({ reason }) => reason === "NotConfigured");
}

/** The state without what changes with each request. */
export function loadState(state: SlotView["state"]): SlotView["state"] {
  return isAvailable(state) ? "ready" : state;
}

/** Answering and ready have one rank: slots must not change places with each request. */
const ranks = { bad: 0, busy: 1, info: 2, good: 2, lent: 3, off: 4 } as const;

/** Compares names. Made once: a thousand slots are sorted with each burst of events. */
export const byName = new Intl.Collator("en");

/** Orders slots for a list: those that need a person, then loading, loaded, and unloaded ones; by name within each. */
export function inOrder<T extends Parameters<typeof stateWords>[0] & Pick<SlotView, "name" | "last_error">>(
  slots: readonly T[],
): readonly T[] {
  return slots
    .map((slot) => ({ slot, rank: isFailing(slot) ? ranks.bad : ranks[stateWords(slot).tone] }))
    .toSorted((one, other) => one.rank - other.rank || byName.compare(one.slot.name, other.slot.name))
    .map(({ slot }) => slot);
}
