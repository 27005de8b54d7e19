import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { askInstead, partial, stopAnswer, waiting } from "../conversation.ts";
import { focusMessage } from "../focus.ts";
import { answering, current } from "../store.ts";
import { ModelMenu } from "./model-menu.tsx";

const isHere = (): boolean => answering.value !== undefined && answering.value.id === current.value.id;

/** The words for a reader of the screen. Not in the log, of which nothing is read out while it is busy; and there before it says anything. */
export function Progress(): JSX.Element {
  return (
    <p role="status" aria-label="Progress" aria-live="polite" class="unseen">
      {isHere() && waiting.value.length > 0 && `${waiting.value.join(", ")} …`}
    </p>
  );
}

/** Stands in the place of the coming answer: what it waits for, and what a person can do meanwhile. */
export function Held(): JSX.Element | null {
  const { model = "" } = answering.value ?? {};
  if (!isHere() || waiting.value.length === 0 || partial.value !== undefined) return null;
  const percent = /(\d+) %/.exec(waiting.value.join(" "))?.[1];
  return (
    <div class="held">
      <div class="quiet who">{model}</div>
      <div class="skeleton" />
      <div class="skeleton" />
      <div class="row">
        <span class="words">
          {waiting.value.join(" · ")}
          <Elapsed key={model} />
        </span>
        {percent !== undefined && <progress aria-label={`${model} loads`} value={Number(percent)} max={100} />}
        <button
          type="button"
          onClick={() => {
            stopAnswer();
            focusMessage();
          }}
        >
          Cancel
        </button>
        <ModelMenu label="Use another model" except={model} onChoose={(other) => void askInstead(other)} />
      </div>
    </div>
  );
}

/** Less is not worth a word. */
const toldFromSeconds = 3;

function Elapsed(): JSX.Element | null {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return seconds < toldFromSeconds ? null : <> · {seconds} s</>;
}
