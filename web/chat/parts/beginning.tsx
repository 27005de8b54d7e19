import type { JSX } from "preact";
import { Mark } from "../../shared/mark.tsx";
import { focusMessage } from "../focus.ts";
import { draft } from "../session.ts";
import { hasModels } from "../models.ts";
import { current } from "../store.ts";

const starters = [
  "What can you do?",
  "Explain an idea simply",
  "Help me write an e-mail",
  "Write a small program",
] as const;

/** The beginning of an empty chat; there may be no model to talk to yet. */
export function Beginning(): JSX.Element {
  const { model } = current.value;
  if (hasModels.value !== false)
    return (
      <div class="beginning">
        <Mark />
        <p class="greeting">{model === "" ? "Ask a model" : `Ask ${model}`}</p>
        <div class="row">
          {starters.map((text) => (
            <button key={text} type="button" onClick={() => begin(text)}>
              {text}
            </button>
          ))}
        </div>
      </div>
    );
  return (
    <p class="beginning">
      No model can chat here yet: the page{" "}
      <a href="../ui/models" target="_self">
        Models
      </a>{" "}
      of the dashboard has some that fit this machine, and the page{" "}
      <a href="../ui" target="_self">
        Overview
      </a>{" "}
      says why a slot is not ready.
    </p>
  );
}

/** Puts the beginning of a question into the box, for the person to go on with. */
function begin(text: string): void {
  draft.value = text;
  focusMessage();
}
