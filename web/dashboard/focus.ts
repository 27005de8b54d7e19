/**
 * Where a reader of the screen goes on: at the heading of a page that is new, or of one whose button went away when it was
 * pressed.
 */
export function focusHeading(): void {
  const heading = document.querySelector<HTMLElement>("main h1");
  if (heading === null) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
