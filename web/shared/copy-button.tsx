import type { JSX } from "preact";
import { useState } from "preact/hooks";

/** Copies a text; says so, and says what to do where the browser forbids it (pages without HTTPS). */
export function CopyButton({ text, label }: { readonly text: string; readonly label?: string }): JSX.Element {
  const [says, setSays] = useState("Copy");
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setSays("Copied");
    } catch {
      setSays("Select it and press Ctrl+C");
    }
  };
  return (
    <button type="button" aria-label={says === "Copy" ? label : undefined} onClick={() => void copy()}>
      {says}
    </button>
  );
}
