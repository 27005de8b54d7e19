/**
 * Loaded before a program (`NODE_OPTIONS=--import`): counts the timers of less than a second that fire in it, and
 * writes the counts of each last three seconds to the file in TIMER_COUNT.
 */
import { renameSync, writeFileSync } from "node:fs";

const shortMs = 1000;
const windowMs = 3000;
const counts = new Map<string, number>();

for (const kind of ["setTimeout", "setInterval"] as const) {
  const real = globalThis[kind];
  const counted = (act: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): NodeJS.Timeout => {
    if (ms >= shortMs) return real(act, ms, ...args);
    const from = new Error("asked for").stack?.split("\n")[2]?.trim() ?? "";
    const what = `${kind} ${ms} ${from}`;
    return real(() => {
      counts.set(what, (counts.get(what) ?? 0) + 1);
      act(...args);
    }, ms);
  };
  Reflect.set(globalThis, kind, Object.assign(counted, real));
}

setInterval(() => {
  const path = process.env["TIMER_COUNT"];
  if (path !== undefined) {
    // In one step: a reader has the counts of one window, whole.
    writeFileSync(`${path}.new`, JSON.stringify([...counts]));
    renameSync(`${path}.new`, path);
  }
  counts.clear();
}, windowMs).unref();
