/** States that come and go with each request are one: `ready`. */
const steady: ReadonlySet<string> = new Set(["ready", "serving", "idle"]);
/** More of them at once are counted. */
const most = 3;

/** The state of each slot, as it is read out. */
export function spokenStates(
  slots: Iterable<{ readonly name: string; readonly state: string }>,
): ReadonlyMap<string, string> {
  return new Map([...slots].map(({ name, state }) => [name, steady.has(state) ? "ready" : state]));
}

/** What has changed from one time to the next, in words for a reader of the screen; empty: nothing that is read out. */
export function announcement(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): string {
  const changed = [...now].filter(([name, state]) => before.get(name) !== state);
  const gone = [...before.keys()].filter((name) => !now.has(name));
  const lines = [...changed.map(([name, state]) => `${name} is ${state}.`), ...gone.map((name) => `${name} is gone.`)];
  return lines.length > most ? `${lines.length} slots have changed.` : lines.join(" ");
}
