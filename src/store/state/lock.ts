import { randomUUID } from "node:crypto";
import { rmSync, statSync, utimesSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { link, rename, rm, stat, writeFile } from "node:fs/promises";
import { temporaryFor } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { bootId } from "../../lib/boot-id.ts";
import { sha256 } from "../../lib/canonical.ts";
import { pidNamespace, startTimeOf } from "../../lib/process-identity.ts";
import { parseJson } from "../../lib/json.ts";
import { everySecond } from "../../lib/pulse.ts";
import { isRecord } from "../../lib/record.ts";
import { readText } from "../../lib/read-text.ts";
import { readPlainText } from "../../lib/small-file.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

/** A live process holds the lock. */
export class LockHeld extends Error {
  readonly pid: number;
  /** `holder`: whose lock it is, where a process id alone would name nobody. */
  constructor(path: string, pid: number, holder = `process ${pid}`) {
    super(`${path} is held by ${holder}`);
    this.name = "LockHeld";
    this.pid = pid;
  }
}

export interface LockOptions {
  /** The interval at which the holder touches the lock. */
  readonly beatMs: number;
  /** How long a holder that can only be judged by its touches is watched before it counts as gone. */
  readonly staleAfterMs: number;
  /**
   * Called once when the lock is gone or another's, as after its directory was deleted: it excludes nobody any more.
   */
  readonly onLost?: () => void;
  /** The lock of a holder that has not touched it for too long: the lock is taken even if that holder lives. */
  readonly expired?: LockSight;
  /** Milliseconds of a monotonic clock. */
  readonly elapsedMs?: () => number;
}

export const usualLock: LockOptions = { beatMs: 1000, staleAfterMs: 5000 };

/** The number of missed touches before a lock is expired. */
const missedBeats = 3;

/** How long a holder trusts its last check of the lock. */
export const trustMs = 250;

export interface HeldLock extends AsyncDisposable {
  /**
   * Whether the lock is still this process's. The file is read where the last check is older than `trustMs`: another
   * process may have taken the lock of one that was stopped for a while.
   */
  isHeld(): boolean;
}

/** A lock as another process sees it. */
export interface LockSight {
  readonly text: string;
  readonly touchedMs: number;
  /** Undefined where the holder is certainly gone. */
  readonly pid: number | undefined;
  /** After how long without a touch the lock is expired; undefined: never, as long as its process lives. */
  readonly leaseMs: number | undefined;
}

/**
 * Takes the lock until disposed or until this process ends in any way: a lock whose holder (pid, start time and boot
 * id) is gone is taken over. A holder in another pid namespace, as in another container over the same directory, cannot
 * be observed: it is gone once it has not touched the lock for `staleAfterMs`. Of several takers exactly one wins.
 * Rejects with `LockHeld`.
 */
export async function acquireLock(path: string, options: LockOptions = usualLock): Promise<HeldLock> {
  const own = JSON.stringify({
    pid: process.pid,
    startTime: startTimeOf(process.pid),
    bootId: bootId(),
    pidNamespace: pidNamespace(),
    id: randomUUID(),
    beatMs: options.beatMs,
  });
  const temporary = temporaryFor(path);
  try {
    await writeFile(temporary, own, { flag: "wx", mode: 0o644, flush: true });
    // A link appears with its whole text or not at all: a new lock is never seen empty.
    for (;;) {
      if (await linked(temporary, path)) break;
      const held = await readText(path);
      if (held === undefined) continue;
      const pid = isExpired(path, held, options) ? undefined : await livePid(path, held, options);
      if (pid !== undefined) throw new LockHeld(path, pid);
      if (await takeOver(path, held, temporary, options)) break;
    }
  } finally {
    await rm(temporary, { force: true });
  }
  return new Held(path, own, options);
}

class Held implements HeldLock {
  readonly #path: string;
  readonly #own: string;
  readonly #options: LockOptions;
  readonly #beats: Disposable;
  readonly #now: () => number;
  #seenMs: number;
  #isLost = false;

  constructor(path: string, own: string, options: LockOptions) {
    this.#path = path;
    this.#own = own;
    this.#options = options;
    this.#now = options.elapsedMs ?? steadyNow;
    this.#seenMs = this.#now();
    this.#beats = every(options.beatMs, () => this.#check());
  }

  isHeld(): boolean {
    if (!this.#isLost && this.#now() - this.#seenMs > trustMs) this.#check();
    return !this.#isLost;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#beats[Symbol.dispose]();
    // In one turn: a process that finds the lock expired checks its time once more before taking it.
    if (!this.#isLost && touched(this.#path, this.#own)) rmSync(this.#path, { force: true });
    this.#isLost = true;
  }

  #check(): void {
    const now = this.#now();
    if (touched(this.#path, this.#own)) {
      this.#seenMs = now;
      return;
    }
    this.#beats[Symbol.dispose]();
    if (this.#isLost) return;
    this.#isLost = true;
    this.#options.onLost?.();
  }
}

/** A process at rest wakes once a second for everything. */
function every(beatMs: number, task: () => void): Disposable {
  if (beatMs === usualLock.beatMs) return everySecond(task);
  const timer = setInterval(task, beatMs).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** The present content of the lock; undefined without one. Reads two files, and waits for nothing. */
export function lockSight(path: string): LockSight | undefined {
  try {
    const text = readPlainText(path);
    const { mtimeMs } = statSync(path);
    const holder = holderIn(text);
    if (holder === undefined || (!isForeign(holder) && !isAlive(holder))) {
      return { text, touchedMs: mtimeMs, pid: undefined, leaseMs: undefined };
    }
    const { pid, beatMs } = holder;
    return { text, touchedMs: mtimeMs, pid, leaseMs: beatMs && beatMs * missedBeats };
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** The pid of the live process that holds the lock; undefined without one. Takes nothing. */
export async function lockHolder(path: string, options: LockOptions = usualLock): Promise<number | undefined> {
  const held = await readText(path);
  return held === undefined ? undefined : await livePid(path, held, options);
}

/**
 * Replaces a stale lock. Only the holder of the lock named after the stale text may replace that text, and checks again
 * while holding it: a slow taker can never displace the winner. That lock becomes stale and is taken over in the same
 * way.
 */
async function takeOver(path: string, stale: string, temporary: string, options: LockOptions): Promise<boolean> {
  await using stack = new AsyncDisposableStack();
  stack.use(await guard(path, stale, options));
  if ((await readText(path)) !== stale) return false;
  if (stale === options.expired?.text && !isExpired(path, stale, options)) return false;
  await rename(temporary, path);
  return true;
}

/** The lock was not touched since it was seen to be expired. */
function isExpired(path: string, text: string, { expired }: LockOptions): boolean {
  return text === expired?.text && lockSight(path)?.touchedMs === expired.touchedMs;
}

async function guard(path: string, stale: string, { beatMs, staleAfterMs }: LockOptions): Promise<AsyncDisposable> {
  try {
    return await acquireLock(`${path}.${sha256(stale).slice(0, 12)}`, { beatMs, staleAfterMs });
  } catch (error) {
    // The process that replaces the stale lock is about to hold it.
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

interface Holder {
  readonly pid: number;
  readonly startTime: string;
  readonly pidNamespace: string | undefined;
  readonly beatMs: number | undefined;
}

/** Undefined where the text names no holder of this boot, as one torn by a power cut. */
function holderIn(text: string): Holder | undefined {
  const holder = parseJson(text);
  if (!isRecord(holder)) return undefined;
  const { pid, startTime, bootId: boot, pidNamespace: namespace, beatMs } = holder;
  if (typeof pid !== "number" || typeof startTime !== "string" || boot !== bootId()) return undefined;
  return {
    pid,
    startTime,
    pidNamespace: typeof namespace === "string" ? namespace : undefined,
    beatMs: typeof beatMs === "number" ? beatMs : undefined,
  };
}

function isForeign({ pidNamespace: namespace }: Holder): boolean {
  return namespace !== undefined && namespace !== pidNamespace();
}

function isAlive({ pid, startTime }: Holder): boolean {
  return startTimeOf(pid) === startTime;
}

/** The holder's pid when it lives; undefined when it is gone or the text names none. */
async function livePid(path: string, text: string, options: LockOptions): Promise<number | undefined> {
  const holder = holderIn(text);
  if (holder === undefined) return undefined;
  const lives = isForeign(holder) ? await isTouched(path, options) : isAlive(holder);
  return lives ? holder.pid : undefined;
}

/** False: it is no longer ours. Only its text shows that: the inode of a deleted file is reused. */
function touched(path: string, own: string): boolean {
  const now = new Date();
  try {
    // Synchronous: a task on the thread pool costs ten times that.
    if (readPlainText(path) !== own) return false;
    utimesSync(path, now, now);
    return true;
  } catch (error) {
    // After any other error the next touch tries again.
    const code = errorCode(error);
    return code !== "ENOENT" && code !== "ENOTDIR";
  }
}

async function isTouched(path: string, { beatMs, staleAfterMs }: LockOptions): Promise<boolean> {
  const timeOf = async (): Promise<number | undefined> => (await stat(path).catch(() => undefined))?.mtimeMs;
  const before = await timeOf();
  const until = performance.now() + staleAfterMs;
  while (performance.now() < until) {
    await delay(Math.min(100, beatMs));
    const now = await timeOf();
    if (now === undefined) return false;
    if (now !== before) return true;
  }
  return false;
}
