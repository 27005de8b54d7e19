import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { stateWords, type StateWords } from "../../../src/api/state-words.ts";
import { Pill } from "../../shared/pill.tsx";

type Described = Pick<SlotView, "state" | "in_flight" | "progress" | "conditions">;

/** A slot's state in words that need no list of states, and never by its colour alone. */
export function State({ slot }: { readonly slot: Described }): JSX.Element {
  const words = stateWords(slot);
  return (
    <span class="state">
      <Pill tone={words.tone} form={formOf(words, slot)}>
        {words.text}
      </Pill>
      {words.aside !== undefined && <span class="quiet"> {words.aside}</span>}
    </span>
  );
}

function formOf({ tone, text }: StateWords, { state }: Described): "pulses" | "hollow" | "dashed" | undefined {
  if (text === "Not set up") return "dashed";
  if (tone === "off") return "hollow";
  return state === "serving" ? "pulses" : undefined;
}
