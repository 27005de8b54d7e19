import { readdirSync, statSync, watch, type FSWatcher } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { errorCode } from "./error-code.ts";
import { parseJson } from "./json.ts";
import { readPlainText } from "./small-file.ts";
import { everySecond } from "./pulse.ts";

interface Entry<T> {
  /** Size, modification time and inode: unequal when the file was replaced. */
  readonly stamp: string;
  readonly text: string;
  readonly value: T | undefined;
}

/**
 * A flat directory of JSON files as a map in memory; writers replace each file whole. An event that names a file has
 * that file read; at least every `sweepMs`, one `readdir` and `stat` find all changes. A file that does not parse keeps
 * its last valid value. Blocks for microseconds a file: a task on the thread pool costs ten times that.
 */
export class JsonDirectory<T> implements AsyncDisposable {
  readonly #path: string;
  readonly #parse: (value: unknown) => T | undefined;
  readonly #onChange: (names: readonly string[]) => void;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #include: (file: string) => boolean;
  #watcher: FSWatcher | undefined;
  #sweep: Disposable | undefined;
  /** Files named by events since the last read. */
  readonly #named = new Set<string>();
  #soon: Disposable | undefined;
  #readAt = 0;
  #scanning: Promise<void> | undefined;
  #isDirty = false;
  #isClosed = false;
  #isOpen = false;

  private constructor(path: string, options: JsonDirectoryOptions<T>) {
    this.#path = path;
    this.#parse = options.parse;
    this.#onChange = options.onChange;
    this.#include = options.include ?? (() => true);
  }

  static async open<T>(path: string, options: JsonDirectoryOptions<T>): Promise<JsonDirectory<T>> {
    const directory = new JsonDirectory(path, options);
    await mkdir(path, { recursive: true });
    // The caller of `open` reads the present values; only later changes are reported.
    await directory.scan();
    directory.#isOpen = true;
    directory.#watch();
    directory.#sweep = every(options.sweepMs, () => void directory.scan());
    return directory;
  }

  /** Values by file name without `.json`. */
  *values(): IterableIterator<readonly [name: string, value: T]> {
    for (const [file, { value }] of this.#entries) if (value !== undefined) yield [file.slice(0, -5), value];
  }

  get(name: string): T | undefined {
    return this.#entries.get(`${name}.json`)?.value;
  }

  /** Scans now: resolves once a scan that began after this call has ended. Concurrent calls share one scan. */
  scan(): Promise<void> {
    this.#isDirty = true;
    this.#scanning ??= this.#scanWhileDirty();
    return this.#scanning;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#watcher?.close();
    this.#sweep?.[Symbol.dispose]();
    this.#soon?.[Symbol.dispose]();
    await this.#scanning;
  }

  #watch(): void {
    try {
      this.#watcher = watch(this.#path, (_, file) => this.#hint(file));
      // Without a watcher the sweep still finds every change.
      this.#watcher.on("error", () => this.#unwatch());
    } catch {
      this.#watcher = undefined;
    }
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
  }

  #hint(file: string | null): void {
    // An event with the directory's own name: it was deleted or moved, and its successor needs a new watch.
    const isGone = file === basename(this.#path);
    if (isGone) this.#unwatch();
    if (file === null || isGone) void this.scan();
    else if (this.#isOurs(file)) {
      this.#named.add(file);
      // The first read is immediate, a burst is read in a few steps: a subscriber's work may depend on the number of
      // files.
      const restMs = this.#readAt + burstMs - performance.now();
      const read = (): void => this.#readNamed();
      this.#soon ??= restMs > 0 ? setTimeout(read, restMs) : setImmediate(read);
    }
  }

  #readNamed(): void {
    this.#soon = undefined;
    this.#readAt = performance.now();
    const changed: string[] = [];
    for (const file of this.#named) {
      if (stampOf(join(this.#path, file)) === gone) {
        if (this.#entries.delete(file)) changed.push(file);
      } else if (this.#read(file)) changed.push(file);
    }
    this.#named.clear();
    this.#notify(changed);
  }

  #isOurs(file: string): boolean {
    return file.endsWith(".json") && !file.startsWith(".") && this.#include(file);
  }

  #notify(changed: readonly string[]): void {
    if (changed.length > 0 && this.#isOpen && !this.#isClosed) this.#onChange(changed.map((file) => file.slice(0, -5)));
  }

  async #scanWhileDirty(): Promise<void> {
    try {
      while (this.#isDirty && !this.#isClosed) {
        this.#isDirty = false;
        await this.#scan();
      }
    } finally {
      // In the same step as the last test: a caller either joins a later scan or starts one.
      this.#scanning = undefined;
    }
  }

  async #scan(): Promise<void> {
    let files: string[];
    if (this.#isOpen && this.#watcher === undefined) this.#watch();
    try {
      files = readdirSync(this.#path);
    } catch (error) {
      // A directory that cannot be read says nothing about its files.
      if (errorCode(error) !== "ENOENT") return;
      files = [];
    }
    const present = new Set(files.filter((file) => this.#isOurs(file)));
    const changed: string[] = [];
    for (const file of this.#entries.keys()) {
      // A file that an event named meanwhile may be younger than the list.
      if (present.has(file) || stampOf(join(this.#path, file)) !== gone) continue;
      this.#entries.delete(file);
      changed.push(file);
    }
    for (const [index, file] of [...present].entries()) {
      if (index % 100 === 99) await new Promise((resolve) => setImmediate(resolve));
      if (this.#isStale(file) && this.#read(file)) changed.push(file);
    }
    this.#notify(changed);
  }

  /** False: the file was not written since it was read. */
  #isStale(file: string): boolean {
    const stamp = stampOf(join(this.#path, file));
    return stamp === young || stamp !== this.#entries.get(file)?.stamp;
  }

  /** True when the file holds another value than before. */
  #read(file: string): boolean {
    const path = join(this.#path, file);
    const known = this.#entries.get(file);
    try {
      const stamp = stampOf(path);
      const text = readPlainText(path);
      if (known?.text === text) {
        this.#entries.set(file, { ...known, stamp });
        return false;
      }
      const value = parsed(text, this.#parse);
      this.#entries.set(file, { stamp, text, value: value ?? known?.value });
      return value !== undefined;
    } catch {
      // The file is gone, or cannot be read: the next scan decides.
      return false;
    }
  }
}

function every(ms: number | undefined, sweep: () => void): Disposable {
  if (ms === undefined) return everySecond(sweep);
  const timer = setInterval(sweep, ms).unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

const burstMs = 5;
const youngMs = 20;
const young = "young";
const gone = "gone";

/** The stamp of the present file, to be taken before it is read. A file without a stamp is always read. */
function stampOf(path: string): string {
  try {
    const { size, mtimeMs, ino } = statSync(path);
    // File times have a resolution of milliseconds and inodes are reused: a younger file may change under the same
    // stamp.
    return Math.abs(Date.now() - mtimeMs) < youngMs ? young : `${size}:${mtimeMs}:${ino}`;
  } catch (error) {
    return errorCode(error) === "ENOENT" ? gone : young;
  }
}

function parsed<T>(text: string, parse: (value: unknown) => T | undefined): T | undefined {
  const value = parseJson(text);
  return value === undefined ? undefined : parse(value);
}

export interface JsonDirectoryOptions<T> {
  /** Undefined for a file of another form. */
  readonly parse: (value: unknown) => T | undefined;
  readonly onChange: (names: readonly string[]) => void;
  readonly include?: (file: string) => boolean;
  /** Default: once a second. */
  readonly sweepMs?: number;
}
