import { setTimeout as delay } from "node:timers/promises";

const shortestPauseMs = 10;
const longestPauseMs = 50;
/** After a look that took long by itself, such as a process. */
const longestRestMs = 500;

/**
 * Waits until `look` gives something other than undefined or false. Rejects with `what` and the last error after
 * `timeoutMs`. Looks cost what is waited for processor time: the pause between two grows to a twentieth of the time that
 * has gone by, up to 50 ms, and is as long as the look took before it.
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 180_000,
): Promise<T> {
  const start = performance.now();
  let last: unknown;
  for (;;) {
    const began = performance.now();
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
    } catch (error) {
      last = error;
    }
    const now = performance.now();
    if (now - start > timeoutMs) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`, { cause: last });
    const pauseMs = Math.min(Math.max(shortestPauseMs, (now - start) / 20), longestPauseMs);
    await delay(Math.max(pauseMs, Math.min(now - began, longestRestMs)));
  }
}
