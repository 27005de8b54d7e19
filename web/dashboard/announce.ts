import { stateWords, type DescribedSlot } from "../../src/api/state-words.ts";

/** States that come and go with each request are one: `ready`. */
const steady: ReadonlySet<string> = new Set(["ready", "serving", "idle"]);
/** More of them at once are counted. */
const most = 3;

/** The state of each slot in the words of the page, without figures. */
export function spokenStates(slots: Iterable<DescribedSlot & { readonly name: string }>): ReadonlyMap<string, string> {
  return new Map(
    [...slots].map(({ name, state, conditions }) => {
      const shown = { state: steady.has(state) ? "ready" : state, in_flight: 0, progress: null, conditions } as const;
      return [name, stateWords(shown).text];
    }),
  );
}

/** What has changed from one time to the next, in words for a reader of the screen; empty: nothing that is read out. */
export function announcement(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string {
  const changed = [...now].filter(([name, state]) => before.get(name) !== state);
  const gone = [...before.keys()].filter((name) => !now.has(name));
  const lines = [...changed.map(([name, state]) => `${name}: ${state}.`), ...gone.map((name) => `${name} is gone.`)];
  return lines.length > most ? `${lines.length} slots have changed.` : lines.join(" ");
}
