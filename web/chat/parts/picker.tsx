import type { JSX } from "preact";
import { modelStateText } from "../../shared/model-words.ts";
import { canChat, draws, models, talkFirst } from "../models.ts";
import { choose, current, lost, refresh } from "../store.ts";

/** Chooses who answers; a slot that is loaded on demand says so. */
export function Picker(): JSX.Element {
  // Slots that only draw stand last: the first choice is to talk.
  const known = models.value.filter(canChat).toSorted(talkFirst);
  const { model } = current.value;
  return (
    <label class="picker">
      <span class="unseen">Model</span>
      <select
        aria-label="Model"
        value={model}
        onFocus={() => void refresh()}
        onPointerDown={() => void refresh()}
        onChange={(event) => choose({ model: event.currentTarget.value })}
      >
        {!known.some(({ id }) => id === model) && <option value={model}>{model === "" ? "none yet" : model}</option>}
        {known.map((each) => (
          <option key={each.id} value={each.id}>
            {each.id}
            {draws(each) && " · draws pictures"}
            {lost.value === "" && modelStateText(each)}
          </option>
        ))}
      </select>
    </label>
  );
}
