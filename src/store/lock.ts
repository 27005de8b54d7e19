import { randomUUID } from "node:crypto";
import { readFileSync, utimesSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { link, rename, rm, stat, writeFile } from "node:fs/promises";
import { temporaryFor } from "../lib/atomic-file.ts";
import { errorCode } from "../lib/error-code.ts";
import { bootId } from "../lib/boot-id.ts";
import { sha256 } from "../lib/canonical.ts";
import { pidNamespace, startTimeOf } from "../lib/process-identity.ts";
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

export interface LockOptions {
  /** How often the holder touches the lock. */
  readonly beatMs: number;
  /** How long a holder that only touches can speak for is watched before it counts as gone. */
  readonly patienceMs: number;
  /** Called once when the lock is gone or another's, as after its directory was deleted: it keeps nobody out any more. */
  readonly onLost?: () => void;
}

export const usualLock: LockOptions = { beatMs: 1500, patienceMs: 5000 };

/**
 * Takes the lock until disposed or until this process ends, however it ends: a lock whose holder (pid, start time
 * and boot id) is gone is taken over. A holder in another pid namespace, as in another container over the same
 * directory, cannot be looked at: it is gone once it has not touched the lock for `patienceMs`. Of several takers
 * exactly one wins. Rejects with `LockHeld`.
 */
export async function acquireLock(path: string, options: LockOptions = usualLock): Promise<AsyncDisposable> {
  const own = JSON.stringify({
    pid: process.pid,
    startTime: startTimeOf(process.pid),
    bootId: bootId(),
    pidNamespace: pidNamespace(),
    id: randomUUID(),
  });
  const temporary = temporaryFor(path);
  try {
    await writeFile(temporary, own, { flag: "wx", mode: 0o644, flush: true });
    // A link appears with its whole text or not at all: a lock that is being made is never seen empty.
    for (;;) {
      if (await linked(temporary, path)) break;
      const held = await readText(path);
      if (held === undefined) continue;
      const pid = await livePid(path, held, options);
      if (pid !== undefined) throw new LockHeld(path, pid);
      if (await takeOver(path, held, temporary, options)) break;
    }
  } finally {
    await rm(temporary, { force: true });
  }
  const beat = setInterval(() => {
    if (touched(path, own)) return;
    clearInterval(beat);
    options.onLost?.();
  }, options.beatMs);
  beat.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(beat);
      if ((await readText(path)) === own) await rm(path, { force: true });
    },
  };
}

/** The pid of the live process that holds the lock; undefined where none does. Takes nothing. */
export async function lockHolder(path: string, options: LockOptions = usualLock): Promise<number | undefined> {
  const held = await readText(path);
  return held === undefined ? undefined : await livePid(path, held, options);
}

/**
 * Replaces a stale lock. Only who holds the lock named after the stale text may replace that text, and looks again
 * while holding it: a slow taker can never throw out the winner. That lock goes stale and is taken over the same way.
 */
async function takeOver(path: string, stale: string, temporary: string, options: LockOptions): Promise<boolean> {
  await using stack = new AsyncDisposableStack();
  stack.use(await guard(path, stale, options));
  if ((await readText(path)) !== stale) return false;
  await rename(temporary, path);
  return true;
}

async function guard(path: string, stale: string, options: LockOptions): Promise<AsyncDisposable> {
  try {
    return await acquireLock(`${path}.${sha256(stale).slice(0, 12)}`, options);
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
async function livePid(path: string, text: string, options: LockOptions): Promise<number | undefined> {
  const holder = parseJson(text);
  if (typeof holder !== "object" || holder === null || !("pid" in holder)) return undefined;
  if (!("startTime" in holder) || !("bootId" in holder) || typeof holder.pid !== "number") return undefined;
  if (holder.bootId !== bootId() || holder.startTime === undefined) return undefined;
  const isForeign = "pidNamespace" in holder && holder.pidNamespace !== pidNamespace();
  const isAlive = isForeign ? await isTouched(path, options) : startTimeOf(holder.pid) === holder.startTime;
  return isAlive ? holder.pid : undefined;
}

/** False: it is no longer ours. Only its text tells: the inode of a file that was deleted is used again. */
function touched(path: string, own: string): boolean {
  const now = new Date();
  try {
    // Directly: a thread of the pool costs ten times that, for ever.
    if (readFileSync(path, "utf8") !== own) return false;
    utimesSync(path, now, now);
    return true;
  } catch (error) {
    // After anything else the next beat tries again.
    const code = errorCode(error);
    return code !== "ENOENT" && code !== "ENOTDIR";
  }
}

async function isTouched(path: string, { beatMs, patienceMs }: LockOptions): Promise<boolean> {
  const timeOf = async (): Promise<number | undefined> => (await stat(path).catch(() => undefined))?.mtimeMs;
  const before = await timeOf();
  const until = performance.now() + patienceMs;
  while (performance.now() < until) {
    await delay(Math.min(100, beatMs));
    const now = await timeOf();
    if (now === undefined) return false;
    if (now !== before) return true;
  }
  return false;
}
