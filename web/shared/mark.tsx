import type { JSX } from "preact";

/** A bollard with a line around it: what a ship is made fast to. */
const bollard = "M7 3h10v4l-2 2v9h3v3H6v-3h3V9L7 7z";
const line = "M3 15c5 3 13 3 18-2";

export function Mark(): JSX.Element {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <path d={bollard} />
      <path class="line" d={line} />
    </svg>
  );
}

/** Shows the mark in the browser's tab, in a colour that a person sees without opening the tab. */
export function showInTab(colour: string): void {
  const drawn = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path fill="${colour}" d="${bollard}"/><path fill="none" stroke="${colour}" stroke-width="2" d="${line}"/></svg>`;
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (icon !== null) icon.href = `data:image/svg+xml,${encodeURIComponent(drawn)}`;
}
