import { readFileSync } from "node:fs";

/**
 * How many files and connections this process may have open at once: `RLIMIT_NOFILE`, whose soft value Node raises to
 * the hard one as it starts, for itself and its children. Undefined where the value is unknown or unlimited.
 */
export function openFileLimit(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
