import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask } from "../conversation.ts";
import { focusMessage } from "../focus.ts";
import { isAnswering } from "../store.ts";

interface EditProps {
  readonly text: string;
  /** The question's place among the messages of all branches. */
  readonly place: number;
  readonly onDone: () => void;
}

/** A question in the making of its next version. */
export function Edit({ text, place, onDone }: EditProps): JSX.Element {
  const [next, setNext] = useState(text);
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => box.current?.focus(), []);
  const isSame = next.trim() === "" || next.trim() === text;
  const end = (): void => {
    onDone();
    focusMessage();
  };
  const submit = (): void => {
    if (isAnswering.value || isSame) return;
    void ask(next.trim().toWellFormed(), place);
    end();
  };
  return (
    <form
      class="edit"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <textarea
        ref={box}
        aria-label="Your question"
        value={next}
        onInput={(event) => setNext(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") end();
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <div class="row">
        <button type="button" class="ghost" onClick={end}>
          Cancel
        </button>
        <button type="submit" class="main" disabled={isSame || isAnswering.value}>
          Ask again
        </button>
      </div>
    </form>
  );
}
