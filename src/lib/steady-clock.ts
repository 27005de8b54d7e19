/**
 * Milliseconds that go by whatever the wall clock is set to: for waits, holds, time-outs and ages. They mean nothing to
 * another process; `wallTimeOf` tells one of them to others.
 */
export function steadyNow(): number {
  return performance.now();
}

/** A clock that runs a little faster or slower than the other moves by less than this between two looks. */
const setByMs = 250;
let offsetMs = Date.now() - steadyNow();

/**
 * The time of day, by the wall clock as it is set now, of a moment of the steady clock. The same moment gives the same
 * time until the wall clock is set.
 */
export function wallTimeOf(momentMs: number): Date {
  const now = Date.now() - steadyNow();
  if (Math.abs(now - offsetMs) > setByMs) offsetMs = now;
  return new Date(Math.round(offsetMs + momentMs));
}
