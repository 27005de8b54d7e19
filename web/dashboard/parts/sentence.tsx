import type { JSX } from "preact";

/** A message of Berth, in which a command stands between backticks. */
export function Sentence({ text }: { readonly text: string }): JSX.Element {
  return <>{text.split("`").map((part, nth) => (nth % 2 === 0 ? part : <code key={nth}>{part}</code>))}</>;
}
