/**
 * Milliseconds of a monotonic clock, independent of the wall clock: for waits, holds, time-outs and ages. They mean
 * nothing to another process; `wallTimeOf` converts a moment for others.
 */
export function steadyNow(): number {
  return performance.now();
}

/** The drift between the two clocks stays below this between two calls. */
const setByMs = 250;
let offsetMs = Date.now() - steadyNow();

/**
 * The wall-clock time, by the wall clock's present setting, of a moment of the steady clock. The same moment gives the
 * same time until the wall clock is set.
 */
export function wallTimeOf(momentMs: number): Date {
  const now = Date.now() - steadyNow();
  if (Math.abs(now - offsetMs) > setByMs) offsetMs = now;
  return new Date(Math.round(offsetMs + momentMs));
}
