/** An object that buffers its writes. */
export interface Flushable {
  flush(): void;
}

let waiting: Flushable[] = [];

/**
 * Calls `flush` once the event loop has handled every readable socket, before it waits again. Writes of many
 * connections then follow each other: the first write wakes the sleeping peer, the others find it awake. Waking a
 * process costs more than the write (docs/performance.md); the delay is the rest of the turn. Call it once per flush.
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
    // An exception in one flush must not prevent the others.
    for (const one of now.slice(flushed)) atEndOfTurn(one);
  }
}
