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

/** A process and all that came of it. */
export function familyOf(pid: number): readonly number[] {
  const text = contentOf(`/proc/${pid}/task/${pid}/children`);
  const children = text.split(" ").filter((word) => word !== "");
  return [pid, ...children.flatMap((child) => familyOf(Number(child)))];
}

function isChild(pid: number, parent: number | undefined): boolean {
  return contentOf(`/proc/${pid}/stat`).split(") ").at(-1)?.split(" ")[1] === String(parent);
}

/** The words that it was called with; one empty word where it has ended. */
export function wordsOf(pid: number): readonly string[] {
  return contentOf(`/proc/${pid}/cmdline`).split("\0");
}

/** Empty where the process has ended. */
function contentOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
