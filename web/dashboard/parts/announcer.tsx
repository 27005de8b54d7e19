import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { announcement, spokenStates } from "../announce.ts";
import { connection, slots } from "../live.ts";

/** Milliseconds in which changes are gathered: a start goes through several states, and only the last one is read out. */
const gatherMs = 1500;

/**
 * Reads changes of states out to whoever does not see them: those of one slot, or of all. Nothing for what was there when
 * the page was opened, and nothing for each request or each figure.
 */
export function Announcer({ slot }: { readonly slot: string | undefined }): JSX.Element {
  const [text, setText] = useState("");
  const said = useRef<ReadonlyMap<string, string> | undefined>(undefined);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    if (connection.value !== "live" || timer.current !== undefined) return;
    const now = (): ReadonlyMap<string, string> =>
      spokenStates([...slots.peek().values()].filter(({ name }) => slot === undefined || name === slot));
    said.current ??= now();
    const before = said.current;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      said.current = now();
      const change = announcement(before, said.current);
      if (change !== "") setText(change);
    }, gatherMs);
  }, [slots.value, connection.value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <div class="unseen" role="status" aria-label="Changes">
      {text}
    </div>
  );
}
