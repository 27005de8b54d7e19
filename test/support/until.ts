import { setTimeout as delay } from "node:timers/promises";

const shortestPauseMs = 10;

/**
 * Waits until `look` gives something other than undefined or false, looking every few milliseconds. Rejects with
 * `what` and the last error after `timeoutMs`. Where a look costs what is waited for processor time, `longestPauseMs` lets
 * pauses grow up to that: to a twentieth of the time that has gone by.
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 180_000,
  longestPauseMs = shortestPauseMs,
): Promise<T> {
  const start = Date.now();
  let last: unknown;
  for (;;) {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
    } catch (error) {
      last = error;
    }
    const passedMs = Date.now() - start;
    if (passedMs > timeoutMs) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`, { cause: last });
    await delay(Math.min(Math.max(shortestPauseMs, passedMs / 20), longestPauseMs));
  }
}
