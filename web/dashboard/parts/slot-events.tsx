import type { JSX } from "preact";
import type { SlotDetail } from "../../../src/api/management/views.ts";
import { stateWords, type StateWords } from "../../../src/api/state-words.ts";
import { Pill } from "../../shared/pill.tsx";
import { When } from "../../shared/when.tsx";
import { Sentence } from "./sentence.tsx";

/** The state after a transition. */
export function transitionWords({ to, reason }: SlotDetail["transitions"][number]): StateWords {
  const conditions = [{ type: "Ready", reason }];
  const { text, tone } = stateWords({ state: to, in_flight: 0, progress: null, conditions });
  return { text: text.replace(/ \d+$/, ""), tone };
}

/** The transitions of a slot, the newest first. */
export function SlotEvents({ slot }: { readonly slot: Pick<SlotDetail, "transitions"> }): JSX.Element {
  if (slot.transitions.length === 0) return <p class="empty">Nothing has happened to it yet.</p>;
  return (
    <ol class="events" aria-label="Transitions">
      {slot.transitions.toReversed().map((transition) => {
        const { at, from, to, message } = transition;
        const { tone, text } = transitionWords(transition);
        return (
          <li key={`${at}${to}`} title={`${from} → ${to}`}>
            <Pill tone={tone}>{text}</Pill>
            <span>
              <Sentence text={message} />
            </span>
            <span class="quiet">
              <When at={at} />
            </span>
          </li>
        );
      })}
    </ol>
  );
}
