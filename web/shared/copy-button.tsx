import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { copy } from "./copy.ts";

/** Copies a text, and says so until there is another text to copy. */
export function CopyButton({ text, label }: { readonly text: string; readonly label?: string }): JSX.Element {
  const [done, setDone] = useState<{ readonly text: string; readonly says: string }>();
  const says = done?.text === text ? done.says : undefined;
  return (
    <button
      type="button"
      aria-label={says === undefined ? label : undefined}
      onClick={() => void copy(text).then((words) => setDone({ text, says: words }))}
    >
      {says ?? "Copy"}
    </button>
  );
}
