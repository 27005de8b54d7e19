import { watch, type Stats } from "node:fs";
import { open, stat, type FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { processRoles, slotNameSchema, type ProcessRole } from "../api/names.ts";
import { lastLinesOf, LineCutter } from "./log-lines.ts";
import { rotatedFile } from "./log-rotation.ts";

/** Where a process's output is appended. Throws when that is no slot's name. */
export function logFile(stateDir: string, slot: string, role: ProcessRole): string {
  return join(stateDir, "logs", `${slotNameSchema.parse(slot)}.${role}.log`);
}

/** Where a container's output is copied to, each line with its time and stream before it. */
export function containerLogFile(stateDir: string, slot: string, role: ProcessRole): string {
  return join(stateDir, "logs", `${slotNameSchema.parse(slot)}.${role}.container.log`);
}

const chunkBytes = 65_536;
/** No tail reads more of a file than this, however long its lines are. */
const tailBytes = 8 * 1024 * 1024;
/** Of a log's end, to know its copy by. */
const comparedBytes = 4096;
/** Events of the file system are hints; behind them is this look. */
const lookMs = 1000;
/** Between the two steps of a rotation the operator needs less than this, however busy the machine is. */
const cutMs = 2000;

export interface LogLine {
  readonly time: Date;
  readonly stream: "stdout" | "stderr" | "output";
  readonly line: string;
}

export interface TailOptions {
  readonly tail: number;
  readonly follow: boolean;
  readonly signal?: AbortSignal;
}

/**
 * The last `tail` lines of a slot's engines, then, with `follow`, each new one until `signal` aborts, across rotations
 * and engine restarts. Reads only: the gateway uses it beside a running operator. The roles' old lines come one role
 * after the other, the one that wrote last at the end. A container's lines carry their time; a process's are given the
 * time at which they were read, or, for old lines, at which their file was last written. A slot without logs yields
 * nothing, and is waited for when followed.
 */
export async function* tailLogs(stateDir: string, slot: string, options: TailOptions): AsyncIterable<LogLine> {
  const paths = processRoles.flatMap((role) => [logFile(stateDir, slot, role), containerLogFile(stateDir, slot, role)]);
  const logs = await Promise.all(paths.map((path) => FollowedLog.open(path, options)));
  const old = logs.toSorted((a, b) => a.writtenAt.getTime() - b.writtenAt.getTime()).flatMap((log) => log.old());
  if (options.tail > 0) yield* old.slice(-options.tail);
  if (!options.follow) return;
  const { signal } = options;
  const bell = new Bell();
  const names = new Set(paths.map((path) => basename(path)));
  const closeWatcher = watchFiles(join(stateDir, "logs"), names, bell.ring);
  const timer = setInterval(bell.ring, lookMs);
  signal?.addEventListener("abort", bell.ring);
  try {
    while (options.signal?.aborted !== true) {
      for (const log of logs) for await (const line of log.news(signal)) yield line;
      await bell.rung();
    }
  } finally {
    closeWatcher();
    clearInterval(timer);
    signal?.removeEventListener("abort", bell.ring);
  }
}

/** Wakes one waiter; a ring while nobody waits is kept. */
class Bell {
  #next = Promise.withResolvers<void>();
  readonly ring = (): void => this.#next.resolve();

  async rung(): Promise<void> {
    await this.#next.promise;
    this.#next = Promise.withResolvers<void>();
  }
}

function watchFiles(directory: string, names: ReadonlySet<string>, onEvent: () => void): () => void {
  try {
    const watcher = watch(directory, (_event, name) => {
      if (name === null || names.has(name)) onEvent();
    });
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    // No directory yet, or no watches left: the regular look finds everything, only later.
    return () => undefined;
  }
}

/** One role's log and how far it was read. */
class FollowedLog {
  readonly writtenAt: Date;
  readonly #path: string;
  readonly #old: readonly string[];
  #cutter: LineCutter;
  #position: number;
  #inode: number | undefined;
  #rotatedStamp: string | undefined;
  #cutAwaitedSince: number | undefined;
  readonly #isStamped: boolean;

  private constructor(path: string, read: Tail, rotatedStamp: string | undefined, options: TailOptions) {
    this.#path = path;
    this.#isStamped = path.endsWith(".container.log");
    this.writtenAt = read.time;
    this.#position = read.size;
    this.#inode = read.inode;
    this.#rotatedStamp = rotatedStamp;
    this.#cutter = new LineCutter(read.rest);
    // A follower sees an unended line once it ends; anybody else sees it as it is.
    const unended = options.follow ? "" : new LineCutter(read.rest).flush();
    this.#old = unended === "" ? read.lines : [...read.lines, unended];
  }

  static async open(path: string, options: TailOptions): Promise<FollowedLog> {
    const rotated = await stat(rotatedFile(path)).catch(() => undefined);
    const read = await readTail(path, options.tail);
    const missing = options.tail - read.lines.length;
    if (missing <= 0 || rotated === undefined) return new FollowedLog(path, read, stampOf(rotated), options);
    const older = await readTail(rotatedFile(path), missing);
    // A log that was cut in the middle of a line goes on in the new file: that line stays in two parts.
    const unended = new LineCutter(older.rest).flush();
    const lines = [...older.lines, ...(unended === "" ? [] : [unended]), ...read.lines].slice(-options.tail);
    const time = read.size === 0 ? older.time : read.time;
    return new FollowedLog(path, { ...read, lines, time }, stampOf(rotated), options);
  }

  old(): LogLine[] {
    return this.#old.map((line) => this.#lineOf(line, this.writtenAt));
  }

  /** What was written since the last look. */
  async *news(signal: AbortSignal | undefined): AsyncIterable<LogLine> {
    const found = await stat(this.#path).catch(() => undefined);
    const rotated = await stat(rotatedFile(this.#path)).catch(() => undefined);
    if (rotated !== undefined && stampOf(rotated) !== this.#rotatedStamp) {
      // Copied, and not emptied yet: reading on now would show every line twice.
      const mayBeWhole = found !== undefined && found.size >= rotated.size;
      if (mayBeWhole && (await isCopyOf(this.#path, found.size, rotated.size)) && this.#waitsForCut()) return;
      this.#cutAwaitedSince = undefined;
      this.#rotatedStamp = stampOf(rotated);
      // `.1` keeps every byte at its offset, unless only the newest part was kept.
      if (this.#position <= rotated.size) yield* this.#read(rotatedFile(this.#path), rotated.size, signal);
      this.#position = 0;
    } else if (found !== undefined && (found.ino !== this.#inode || found.size < this.#position)) {
      this.#position = 0;
      this.#cutter = new LineCutter();
    }
    this.#inode = found?.ino;
    if (found !== undefined) yield* this.#read(this.#path, found.size, signal);
  }

  #lineOf(line: string, readAt: Date): LogLine {
    const [, stamp, stream, text = ""] = this.#isStamped ? (/^(\S+) (stdout|stderr) (.*)$/s.exec(line) ?? []) : [];
    const time = new Date(stamp ?? "");
    if (Number.isNaN(time.getTime())) return { time: readAt, stream: "output", line };
    return { time, stream: stream === "stderr" ? "stderr" : "stdout", line: text };
  }

  /** Since the last look at the copy, which is in place before the log is cut. */
  async #wasRotated(): Promise<boolean> {
    const rotated = await stat(rotatedFile(this.#path)).catch(() => undefined);
    return stampOf(rotated) !== this.#rotatedStamp;
  }

  /** For a moment only: a log that says the same again and again may also have grown past its predecessor since. */
  #waitsForCut(): boolean {
    this.#cutAwaitedSince ??= performance.now();
    return performance.now() - this.#cutAwaitedSince < cutMs;
  }

  async *#read(path: string, size: number, signal: AbortSignal | undefined): AsyncIterable<LogLine> {
    if (this.#position >= size) return;
    const file = await open(path, "r").catch(() => undefined);
    if (file === undefined) return;
    try {
      while (this.#position < size) {
        if (signal?.aborted === true) return;
        const chunk = await readAt(file, this.#position, Math.min(chunkBytes, size - this.#position));
        // Cut since it was looked at: these bytes may stand behind the cut, and what was before it is in the copy.
        if (chunk.length === 0 || (await this.#wasRotated())) return;
        this.#position += chunk.length;
        for (const line of this.#cutter.push(chunk)) yield this.#lineOf(line, new Date());
      }
    } finally {
      await file.close();
    }
  }
}

/**
 * The copy ends with what the log holds at the same place or, where only the newest part was kept, at its end. A log
 * that was emptied and has grown as long since must not be taken for it: the next rotation takes away what it said.
 */
async function isCopyOf(path: string, size: number, copySize: number): Promise<boolean> {
  await using stack = new AsyncDisposableStack();
  const [log, copy] = await Promise.all([open(path, "r"), open(rotatedFile(path), "r")].map(unlessMissing));
  for (const file of [log, copy]) if (file !== undefined) stack.defer(() => file.close());
  if (log === undefined || copy === undefined) return false;
  const length = Math.min(copySize, comparedBytes);
  const end = await readAt(copy, copySize - length, length);
  for (const at of [copySize, size]) if (end.equals(await readAt(log, at - length, length))) return true;
  return false;
}

async function unlessMissing(opening: Promise<FileHandle>): Promise<FileHandle | undefined> {
  return await opening.catch(() => undefined);
}

/** Another one for every rotation. An inode alone would not do: its number is soon used again. */
function stampOf(rotated: Stats | undefined): string | undefined {
  return rotated === undefined ? undefined : `${rotated.ino} ${rotated.mtimeMs} ${rotated.size}`;
}

interface Tail {
  /** Complete lines. */
  readonly lines: readonly string[];
  readonly rest: Buffer;
  /** Up to where the file was looked at. */
  readonly size: number;
  readonly inode: number | undefined;
  readonly time: Date;
}

/** Read from the end, chunk by chunk, so that a large log costs what is asked for. */
async function readTail(path: string, count: number): Promise<Tail> {
  const nothing: Tail = { lines: [], rest: Buffer.alloc(0), size: 0, inode: undefined, time: new Date(0) };
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return nothing;
  try {
    const { size, ino: inode, mtime: time } = await file.stat();
    const chunks: Buffer[] = [];
    let start = size;
    let newlines = 0;
    // One more than asked for: the first line found may have lost its beginning.
    while (start > 0 && newlines <= count && size - start < tailBytes) {
      const length = Math.min(chunkBytes, start);
      const chunk = await readAt(file, start - length, length);
      // Cut while it was read: what follows is another file.
      if (chunk.length < length) return { ...nothing, inode };
      start -= length;
      chunks.push(chunk);
      for (const byte of chunk) if (byte === 0x0a) newlines += 1;
    }
    const { lines, rest } = lastLinesOf(Buffer.concat(chunks.toReversed()), count);
    return { lines, rest, size, inode, time };
  } finally {
    await file.close();
  }
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await file.read(buffer, 0, length, position);
  return buffer.subarray(0, bytesRead);
}
