import type { JSX } from "preact";
import type { SlotView } from "../../../src/api/management/views.ts";
import { remedyOf } from "../concern.ts";

/** A button that leads to where the trouble of a slot is mended; nothing where waiting is all there is to do. */
export function Remedy({ slot }: { readonly slot: SlotView }): JSX.Element | null {
  const to = remedyOf(slot);
  return to === undefined ? null : (
    <a class="button remedy" href={to.href}>
      {to.word}
    </a>
  );
}
