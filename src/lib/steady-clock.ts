/**
 * Milliseconds of a monotonic clock, independent of the wall clock: for waits, holds, time-outs and ages. They mean
 * nothing to another process; `wallTimeOf` converts a moment for others.
 */
export function steadyNow(): number {
  return performance.now();
}

/** The drift between the two clocks stays below this between two calls. */
const setByMs = 250;
/** Readings of both clocks that took longer are not of one moment: the process has stood still between them. */
const standstillMs = 10;
let offsetMs = offsetNow();

/**
 * The wall-clock time, by the wall clock's present setting, of a moment of the steady clock. The same moment gives the
 * same time until the wall clock is set.
 */
export function wallTimeOf(momentMs: number): Date {
  const now = offsetNow();
  if (Math.abs(now - offsetMs) > setByMs) offsetMs = now;
  return new Date(Math.round(offsetMs + momentMs));
}

function offsetNow(): number {
  for (;;) {
    const moment = steadyNow();
    const offset = Date.now() - moment;
    if (steadyNow() - moment < standstillMs) return offset;
  }
}
