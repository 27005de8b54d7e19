/**
 * Runs the once-a-second work of a process at rest together: the process wakes once instead of once per part, since a
 * wake-up costs more than the work. On the second of the wall clock, so that the processes of a machine and delays of
 * whole seconds coincide. Does not keep the process alive.
 */
export function everySecond(beat: () => void): Disposable {
  const own = { beat };
  beats.add(own);
  timer ??= next();
  return {
    [Symbol.dispose]: () => {
      beats.delete(own);
      if (beats.size > 0) return;
      clearTimeout(timer);
      timer = undefined;
    },
  };
}

const periodMs = 1000;
const earlyMs = 50;
const beats = new Set<{ readonly beat: () => void }>();
let timer: NodeJS.Timeout | undefined;

function next(): NodeJS.Timeout {
  const restMs = periodMs - (Date.now() % periodMs);
  // A timer may fire a little early, and must not fire twice for one second.
  return setTimeout(pulse, restMs < earlyMs ? restMs + periodMs : restMs).unref();
}

function pulse(): void {
  timer = next();
  for (const { beat } of beats) beat();
}
