import { join, resolve } from "node:path";
import { FSWatcher } from "chokidar";

/**
 * A watcher that lost a directory is replaced after this time at the earliest, since its successor may lose it again.
 */
const againMs = 10_000;

/**
 * Hints that something happened in some directories, with the name where the system reports it. Not recursive, and each
 * watch belongs to an inode: after every read the caller names the directories that it has read, and it also reads
 * without a hint at intervals.
 *
 * The hints are chokidar's raw events. Its other events come later, since chokidar calls `stat` first, which the read
 * after a hint does anyway.
 */
export class DirectoryWatch implements AsyncDisposable {
  readonly #onHint: (path?: string) => void;
  #followed: { readonly key: string; readonly watcher: FSWatcher; staleAt: number } | undefined;
  #closing: Promise<unknown> = Promise.resolve();

  /** Gets the path of an event; no path when anything may have happened. */
  constructor(onHint: (path?: string) => void) {
    this.#onHint = onHint;
  }

  /** Watches exactly these: paths by an identity that changes with the directory at the path. */
  follow(directories: ReadonlyMap<string, string>): void {
    const key = JSON.stringify([...directories]);
    if (this.#followed?.key === key && performance.now() < this.#followed.staleAt) return;
    // chokidar shares one watch per path, of the first inode: a swapped directory is visible only after all watches
    // that chokidar derived from the old one, its children's among them, have closed.
    this.#close();
    const named = new Map([...directories.keys()].map((path) => [resolve(path), path]));
    const watcher = new FSWatcher({ ...options, ignored: (path) => !named.has(path) });
    const followed = { key, watcher, staleAt: Infinity };
    watcher.on("raw", (_, name, details) => {
      const directory = named.get(watchedPath(details));
      this.#onHint(name === null || directory === undefined ? undefined : join(directory, name));
    });
    // Losing a watch loses only hints: the read after `againMs` opens it again.
    watcher.on("error", () => (followed.staleAt = Math.min(followed.staleAt, performance.now() + againMs)));
    // A change between the read and the watch gave no hint.
    watcher.on("ready", () => this.#onHint());
    watcher.add([...named.keys()]);
    this.#followed = followed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close();
    await this.#closing;
  }

  #close(): void {
    const closing = this.#followed?.watcher.close();
    this.#followed = undefined;
    this.#closing = Promise.allSettled([this.#closing, closing]);
  }
}

/** Only the named directories, and none of their entries: no watch per file, no listing of subdirectories. */
const options = { depth: 0, ignoreInitial: true, atomic: false, ignorePermissionErrors: false } as const;

/** The directory of a raw event; empty where chokidar polls. */
function watchedPath(details: unknown): string {
  const isFromWatch = typeof details === "object" && details !== null && "watchedPath" in details;
  return isFromWatch && typeof details.watchedPath === "string" ? details.watchedPath : "";
}
