import { setTimeout as delay } from "node:timers/promises";

/**
 * Waits until `look` gives something other than undefined or false, looking every few milliseconds. Rejects with
 * `what` and the last error after `timeoutMs`.
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  timeoutMs = 180_000,
): Promise<T> {
  const deadline = Date.now() + timeoutMs;
  let last: unknown;
  for (;;) {
    try {
      const found = await look();
      if (found !== undefined && found !== false) return found;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`, { cause: last });
    await delay(10);
  }
}
