import { signal } from "@preact/signals";

const tickMs = 30_000;
const ticks = signal(0);

/** Counts the half minutes while the page is shown. Once for the page. */
export function startClock(): void {
  const tick = (): void => {
    if (!document.hidden) ticks.value += 1;
  };
  setInterval(tick, tickMs);
  document.addEventListener("visibilitychange", tick);
}

/** The time in milliseconds. A component that reads it is drawn again each half minute, also while nothing happens. */
export function now(): number {
  void ticks.value;
  return Date.now();
}
