import type { IconNode } from "lucide";
import { h, type JSX } from "preact";

/** A picture of Lucide beside a word, or alone in a button that has a label: a reader of the screen skips it. */
export function Icon({ of }: { readonly of: IconNode }): JSX.Element {
  return (
    <svg class="glyph" viewBox="0 0 24 24" aria-hidden="true">
      {of.map(([tag, attributes]) => h(tag, attributes))}
    </svg>
  );
}
