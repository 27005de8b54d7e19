import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** The child of a process that was called with that word, as `berth up` calls its two. */
export function childOf({ pid: parent }: ChildProcess, word: string): number {
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => isChild(pid, parent) && wordsOf(pid).includes(word));
  const [found] = children;
  assert.ok(found !== undefined, `process ${parent} has no child ${word}`);
  return found;
}

function isChild(pid: number, parent: number | undefined): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ")[1] === String(parent);
  } catch {
    return false;
  }
}

function wordsOf(pid: number): readonly string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}
