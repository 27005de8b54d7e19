import { randomUUID } from "node:crypto";
import { link, rename, rm, writeFile } from "node:fs/promises";
import { errorCode } from "../lib/error-code.ts";
import { bootId } from "../lib/boot-id.ts";
import { sha256 } from "../lib/canonical.ts";
import { startTimeOf } from "../lib/process-identity.ts";
import { parseJson } from "../lib/json.ts";
import { readText } from "../lib/read-text.ts";

/** A live process holds the lock. */
export class LockHeld extends Error {
  readonly pid: number;
  constructor(path: string, pid: number) {
    super(`${path} is held by process ${pid}`);
    this.name = "LockHeld";
    this.pid = pid;
  }
}

/**
 * Takes the lock until disposed or until this process ends, however it ends: a lock whose holder (pid, start time
 * and boot id) is gone is taken over. Of several takers exactly one wins. Rejects with `LockHeld`.
 */
export async function acquireLock(path: string): Promise<AsyncDisposable> {
  const own = JSON.stringify({
    pid: process.pid,
    startTime: startTimeOf(process.pid),
    bootId: bootId(),
    id: randomUUID(),
  });
  const temporary = `${path}.${randomUUID()}.tmp`;
  await writeFile(temporary, own, { flag: "wx", mode: 0o644, flush: true });
  try {
    // A link appears with its whole text or not at all: a lock that is being made is never seen empty.
    for (;;) {
      if (await linked(temporary, path)) break;
      const held = await readText(path);
      if (held === undefined) continue;
      const pid = livePid(held);
      if (pid !== undefined) throw new LockHeld(path, pid);
      if (await takeOver(path, held, temporary)) break;
    }
  } finally {
    await rm(temporary, { force: true });
  }
  return {
    async [Symbol.asyncDispose]() {
      if ((await readText(path)) === own) await rm(path, { force: true });
    },
  };
}

/**
 * Replaces a stale lock. Only who holds the lock named after the stale text may replace that text, and looks again
 * while holding it: a slow taker can never throw out the winner. That lock goes stale and is taken over the same way.
 */
async function takeOver(path: string, stale: string, temporary: string): Promise<boolean> {
  await using stack = new AsyncDisposableStack();
  stack.use(await guard(path, stale));
  if ((await readText(path)) !== stale) return false;
  await rename(temporary, path);
  return true;
}

async function guard(path: string, stale: string): Promise<AsyncDisposable> {
  try {
    return await acquireLock(`${path}.${sha256(stale).slice(0, 12)}`);
  } catch (error) {
    // Who replaces the stale lock is about to hold it.
    throw error instanceof LockHeld ? new LockHeld(path, error.pid) : error;
  }
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (errorCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** The holder's pid when it lives; undefined when it is gone or the text names nobody (torn by a power cut). */
function livePid(text: string): number | undefined {
  const holder = parseJson(text);
  if (typeof holder !== "object" || holder === null || !("pid" in holder)) return undefined;
  if (!("startTime" in holder) || !("bootId" in holder) || typeof holder.pid !== "number") return undefined;
  const isAlive = holder.bootId === bootId() && startTimeOf(holder.pid) === holder.startTime;
  return isAlive && holder.startTime !== undefined ? holder.pid : undefined;
}
