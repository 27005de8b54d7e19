import type { ComponentChildren, JSX } from "preact";
import type { Tone } from "../../src/api/state-words.ts";

interface PillProps {
  readonly tone: Tone;
  readonly children: ComponentChildren;
  /** How the dot, or the edge, says what the word says: something goes on, nothing is loaded, nothing is set up. */
  readonly form?: "pulses" | "hollow" | "dashed" | undefined;
}

/** A short state: a word, a dot and a soft ground. */
export function Pill({ tone, children, form }: PillProps): JSX.Element {
  return <span class={`pill ${tone} ${form ?? ""}`}>{children}</span>;
}
