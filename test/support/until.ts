import { setTimeout as delay } from "node:timers/promises";

/**
 * The first value of `look` that is not undefined or false. Looks every few milliseconds; rejects with what was
 * waited for once `withinMs` are over.
 */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = 10_000,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const value = await look();
    if (value !== undefined && value !== false) return value;
    if (performance.now() > deadline) throw new Error(`waited ${withinMs} ms in vain until ${what}`);
    await delay(5);
  }
}
