import type { JSX } from "preact";
import { wordsOf } from "../../shared/model-words.ts";
import { Pill } from "../../shared/pill.tsx";
import { canChat, draws, models, talkFirst } from "../models.ts";
import { choose, current, lost, refresh } from "../store.ts";

/** Chooses who answers, and says how that slot is. */
export function Picker(): JSX.Element {
  // Slots that only draw stand last: the first choice is to talk.
  const known = models.value.filter(canChat).toSorted(talkFirst);
  const { model } = current.value;
  const chosen = known.find(({ id }) => id === model);
  const words = chosen === undefined || lost.value !== "" ? undefined : wordsOf(chosen);
  return (
    <span class="picker">
      <select
        aria-label="Model"
        value={model}
        onFocus={() => void refresh()}
        onPointerDown={() => void refresh()}
        onChange={(event) => choose({ model: event.currentTarget.value })}
      >
        {chosen === undefined && <option value={model}>{model === "" ? "none yet" : model}</option>}
        {known.map((each) => (
          <option key={each.id} value={each.id}>
            {[each.id, draws(each) && "draws pictures", lost.value === "" && each !== chosen && wordsOf(each)?.text]
              .filter(Boolean)
              .join(" · ")}
          </option>
        ))}
      </select>
      {words !== undefined && <Pill tone={words.tone}>{words.text}</Pill>}
    </span>
  );
}
