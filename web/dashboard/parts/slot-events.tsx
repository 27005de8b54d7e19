import type { JSX } from "preact";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { Pill } from "../../shared/pill.tsx";
import { When } from "../../shared/when.tsx";
import { stateWords } from "../../../src/api/state-words.ts";

/** The transitions of a slot, the newest first. */
export function SlotEvents({ slot }: { readonly slot: SlotDetail }): JSX.Element {
  if (slot.transitions.length === 0) return <p class="empty">Nothing has happened to it yet.</p>;
  return (
    <ol class="events" aria-label="Transitions">
      {slot.transitions.toReversed().map(({ at, from, to, message }) => {
        const { tone, text } = stateWords({ state: to, in_flight: 0, progress: null, conditions: [] });
        return (
          <li key={`${at}${to}`} title={`${from} → ${to}`}>
            <Pill tone={tone}>{text.replace(/ \d+$/, "")}</Pill>
            <span>{message}</span>
            <span class="quiet">
              <When at={at} />
            </span>
          </li>
        );
      })}
    </ol>
  );
}
