import { watch, type Stats } from "node:fs";
import { open, readdir, stat, type FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { processRoles, slotNameSchema } from "../../api/names.ts";
import { processName, type SlotProcess } from "../../api/process-ref.ts";
import { lastLinesOf, LineCutter } from "./log-lines.ts";
import { rotatedFile } from "./log-rotation.ts";

/** The file of a process's output. Throws for an invalid slot name. */
export function logFile(stateDir: string, process: SlotProcess): string {
  return join(stateDir, "logs", `${stem(process)}.log`);
}

/** The file of a container's copied output, each line with its time and stream before it. */
export function containerLogFile(stateDir: string, process: SlotProcess): string {
  return join(stateDir, "logs", `${stem(process)}.container.log`);
}

function stem(process: SlotProcess): string {
  return `${slotNameSchema.parse(process.slot)}.${processName(process)}`;
}

const chunkBytes = 65_536;
/** No tail reads more of a file than this, with lines of any length. */
const tailBytes = 8 * 1024 * 1024;
/** The part of a log's end that identifies its copy. */
const comparedBytes = 4096;
/** Events of the file system are hints; this is the interval of reads without one. */
const intervalMs = 1000;
/** The operator needs less than this between the two steps of a rotation, on a busy machine too. */
const cutMs = 2000;

export interface LogLine {
  readonly time: Date;
  readonly stream: "stdout" | "stderr" | "output";
  readonly line: string;
  /** The process of the slot that printed the line: `main`, `main-1`, `rerank`. */
  readonly process: string;
}

export interface TailOptions {
  readonly tail: number;
  readonly follow: boolean;
  readonly signal?: AbortSignal;
}

/**
 * The last `tail` lines of a slot's engines, then, with `follow`, each new one until `signal` aborts, across rotations
 * and engine restarts. Reads only: the gateway uses it beside a running operator. The processes' old lines come one
 * process after the other, the latest writer at the end. A container's lines carry their time; a process's lines get
 * the time of reading, or, for old lines, their file's modification time. A slot without logs yields nothing, and is
 * waited for with `follow`.
 */
export async function* tailLogs(stateDir: string, slot: string, options: TailOptions): AsyncIterable<LogLine> {
  const paths = new Set(await logFiles(stateDir, slot));
  const logs = await Promise.all([...paths].map((path) => FollowedLog.open(path, options)));
  const old = logs.toSorted((a, b) => a.writtenAt.getTime() - b.writtenAt.getTime()).flatMap((log) => log.old());
  if (options.tail > 0) yield* old.slice(-options.tail);
  if (!options.follow) return;
  const { signal } = options;
  const wakeup = new Wakeup();
  const closeWatcher = watchFiles(join(stateDir, "logs"), `${slot}.`, wakeup.wake);
  const timer = setInterval(wakeup.wake, intervalMs);
  signal?.addEventListener("abort", wakeup.wake);
  try {
    while (options.signal?.aborted !== true) {
      for (const path of await logFiles(stateDir, slot)) {
        if (paths.has(path)) continue;
        paths.add(path);
        logs.push(FollowedLog.fromStart(path, options));
      }
      for (const log of logs) for await (const line of log.news(signal)) yield line;
      await wakeup.woken();
    }
  } finally {
    closeWatcher();
    clearInterval(timer);
    signal?.removeEventListener("abort", wakeup.wake);
  }
}

/** The logs of every process of that slot: of replicas those that exist. */
async function logFiles(stateDir: string, slot: string): Promise<readonly string[]> {
  const first = processRoles.map((role) => ({ slot, role, ordinal: 0 }));
  const usual = first.flatMap((process) => [logFile(stateDir, process), containerLogFile(stateDir, process)]);
  const directory = join(stateDir, "logs");
  const replica = new RegExp(`^${slot}\\.(${processRoles.join("|")})-\\d+(\\.container)?\\.log$`);
  const names = await readdir(directory).catch(() => []);
  return [...usual, ...names.filter((name) => replica.test(name)).map((name) => join(directory, name))];
}

/** Wakes one waiter; a wake-up without a waiter is kept. */
class Wakeup {
  #next = Promise.withResolvers<void>();
  readonly wake = (): void => this.#next.resolve();

  async woken(): Promise<void> {
    await this.#next.promise;
    this.#next = Promise.withResolvers<void>();
  }
}

function watchFiles(directory: string, prefix: string, onEvent: () => void): () => void {
  try {
    const watcher = watch(directory, (_event, name) => {
      if (name === null || name.startsWith(prefix)) onEvent();
    });
    watcher.on("error", () => watcher.close());
    return () => watcher.close();
  } catch {
    // No directory yet, or no watches left: the regular read finds everything, only later.
    return () => undefined;
  }
}

/** One process's log and the offset of the last read. */
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
  readonly #process: string;

  private constructor(path: string, read: Tail, rotatedStamp: string | undefined, options: TailOptions) {
    this.#path = path;
    this.#isStamped = path.endsWith(".container.log");
    // A slot's name has no dot.
    this.#process = basename(path).split(".")[1] ?? "";
    this.writtenAt = read.time;
    this.#position = read.size;
    this.#inode = read.inode;
    this.#rotatedStamp = rotatedStamp;
    this.#cutter = new LineCutter(read.rest);
    // A follower gets an unfinished line once it ends; other readers get it at once.
    const unended = options.follow ? "" : new LineCutter(read.rest).flush();
    this.#old = unended === "" ? read.lines : [...read.lines, unended];
  }

  static async open(path: string, options: TailOptions): Promise<FollowedLog> {
    const rotated = await stat(rotatedFile(path)).catch(() => undefined);
    const read = await readTail(path, options.tail);
    const missing = options.tail - read.lines.length;
    if (missing <= 0 || rotated === undefined) return new FollowedLog(path, read, stampOf(rotated), options);
    const older = await readTail(rotatedFile(path), missing);
    // A log that was cut within a line continues in the new file: that line stays in two parts.
    const unended = new LineCutter(older.rest).flush();
    const lines = [...older.lines, ...(unended === "" ? [] : [unended]), ...read.lines].slice(-options.tail);
    const time = read.size === 0 ? older.time : read.time;
    return new FollowedLog(path, { ...read, lines, time }, stampOf(rotated), options);
  }

  /** A log that was created while the others were followed. */
  static fromStart(path: string, options: TailOptions): FollowedLog {
    return new FollowedLog(path, nothing, undefined, options);
  }

  old(): LogLine[] {
    return this.#old.map((line) => this.#lineOf(line, this.writtenAt));
  }

  /** The lines since the last read. */
  async *news(signal: AbortSignal | undefined): AsyncIterable<LogLine> {
    const found = await stat(this.#path).catch(() => undefined);
    const rotated = await stat(rotatedFile(this.#path)).catch(() => undefined);
    if (rotated !== undefined && stampOf(rotated) !== this.#rotatedStamp) {
      // Copied, and not emptied yet: reading now would show every line twice.
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
    const process = this.#process;
    if (Number.isNaN(time.getTime())) return { time: readAt, stream: "output", line, process };
    return { time, stream: stream === "stderr" ? "stderr" : "stdout", line: text, process };
  }

  /** Since the last check of the copy, which is in place before the log is cut. */
  async #wasRotated(): Promise<boolean> {
    const rotated = await stat(rotatedFile(this.#path)).catch(() => undefined);
    return stampOf(rotated) !== this.#rotatedStamp;
  }

  /** For a moment only: a log with repeated lines may also have grown past its predecessor since. */
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
        // Cut since its status was read: these bytes may follow the cut, and the earlier ones are in the copy.
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
 * The copy ends with the log's bytes at the same offset or, where only the newest part was kept, at its end. A log that
 * was emptied and has grown as long since must not count as the copied one: the next rotation would drop its lines.
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

/** Differs for every rotation. An inode alone would not do: its number is soon reused. */
function stampOf(rotated: Stats | undefined): string | undefined {
  return rotated === undefined ? undefined : `${rotated.ino} ${rotated.mtimeMs} ${rotated.size}`;
}

interface Tail {
  /** Complete lines. */
  readonly lines: readonly string[];
  readonly rest: Buffer;
  /** Up to the size at the read. */
  readonly size: number;
  readonly inode: number | undefined;
  readonly time: Date;
}

const nothing: Tail = { lines: [], rest: Buffer.alloc(0), size: 0, inode: undefined, time: new Date(0) };

/** Read from the end, chunk by chunk, so that a large log costs only the requested part. */
async function readTail(path: string, count: number): Promise<Tail> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return nothing;
  try {
    const { size, ino: inode, mtime: time } = await file.stat();
    const chunks: Buffer[] = [];
    let start = size;
    let newlines = 0;
    // One more than requested: the first line found may lack its beginning.
    while (start > 0 && newlines <= count && size - start < tailBytes) {
      const length = Math.min(chunkBytes, start);
      const chunk = await readAt(file, start - length, length);
      // Cut while it was read: the rest is another file.
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
