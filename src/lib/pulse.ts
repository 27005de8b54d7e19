/**
 * What a process at rest does once a second, done together: it wakes once, and not once for each of its parts, whose
 * every wake-up costs more than what is done then. On the second of the wall clock, so that the processes of a machine
 * and delays of whole seconds fall together too. Does not keep the process alive.
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
  // A timer may fire a little before its time, and must not fire again then.
  return setTimeout(pulse, restMs < earlyMs ? restMs + periodMs : restMs).unref();
}

function pulse(): void {
  timer = next();
  for (const { beat } of beats) beat();
}
