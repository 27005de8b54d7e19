/** Something that gathers what it has to write. */
export interface Flushable {
  flush(): void;
}

let waiting: Flushable[] = [];

/**
 * Calls `flush` once the event loop has heard every socket that had something to say, before it waits again. Writes of
 * many connections then follow each other: the first one wakes whoever sleeps at the other end, the rest find it awake.
 * Waking costs more than the write (docs/performance.md); the delay is the rest of the turn, nothing where there is
 * none. Call it once per flush.
 */
export function atEndOfTurn(one: Flushable): void {
  if (waiting.push(one) === 1) setImmediate(flushAll);
}

function flushAll(): void {
  const now = waiting;
  waiting = [];
  let flushed = 0;
  try {
    for (const one of now) {
      flushed += 1;
      one.flush();
    }
  } finally {
    // One that throws takes nothing away from the others.
    for (const one of now.slice(flushed)) atEndOfTurn(one);
  }
}
