import type { JSX } from "preact";
import { stateWords } from "../../../src/api/state-words.ts";
import type { V1Model } from "../../../src/api/management/v1-model.ts";
import { slotStates } from "../../../src/api/states.ts";
import { canChat, current, lost, models } from "../store.ts";

/** Chooses who answers; a slot that is loaded on demand says so. */
export function Picker(): JSX.Element {
  const known = models.value.filter(canChat);
  const { model } = current.value;
  return (
    <label class="picker">
      <span class="unseen">Model</span>
      <select
        aria-label="Model"
        value={model}
        onChange={(event) => (current.value = { ...current.value, model: event.currentTarget.value })}
      >
        {!known.some(({ id }) => id === model) && <option value={model}>{model === "" ? "none yet" : model}</option>}
        {known.map((each) => (
          <option key={each.id} value={each.id}>
            {each.id}
            {lost.value === "" && stateText(each)}
          </option>
        ))}
      </select>
    </label>
  );
}

function stateText({ berth }: V1Model): string {
  const state = slotStates.find((each) => each === berth.state);
  if (state === undefined) return "";
  // Without its conditions an offline slot is one that loads on demand, or one that a person keeps unloaded.
  const { text } = stateWords({ state, in_flight: 0, progress: null, conditions: [] });
  return state === "serving" ? " · Answering" : ` · ${text}`;
}
