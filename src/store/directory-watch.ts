import { join, resolve } from "node:path";
import { FSWatcher } from "chokidar";

/** A watcher that lost a directory is made anew after this long at the earliest: the next one may lose it again. */
const againMs = 10_000;

/**
 * Hints that something happened in some directories, and to which name where the system tells. Not recursive, and each
 * watch is of an inode: whoever uses it says after every look which directories it looked at, and looks now and then
 * without a hint.
 *
 * The hints are chokidar's raw events. Its other events come later, since chokidar asks the file system first: the look
 * that follows a hint asks in any case.
 */
export class DirectoryWatch implements AsyncDisposable {
  readonly #onHint: (path?: string) => void;
  #followed: { readonly key: string; readonly watcher: FSWatcher; staleAt: number } | undefined;
  #closing: Promise<unknown> = Promise.resolve();

  /** Hears the path that an event names; nothing when anything may have happened. */
  constructor(onHint: (path?: string) => void) {
    this.#onHint = onHint;
  }

  /** Watches exactly these: paths by an identity that changes with the directory behind the path. */
  follow(directories: ReadonlyMap<string, string>): void {
    const key = JSON.stringify([...directories]);
    if (this.#followed?.key === key && performance.now() < this.#followed.staleAt) return;
    // chokidar shares one watch per path, of the inode that was there first: a swapped directory is seen only after all
    // watches that chokidar derives from the old one, its children's among them, have ended.
    this.#close();
    const named = new Map([...directories.keys()].map((path) => [resolve(path), path]));
    const watcher = new FSWatcher({ ...options, ignored: (path) => !named.has(path) });
    const followed = { key, watcher, staleAt: Infinity };
    watcher.on("raw", (_, name, details) => {
      const directory = named.get(watchedPath(details));
      this.#onHint(name === null || directory === undefined ? undefined : join(directory, name));
    });
    // Losing a watch loses only hints: the look after `againMs` makes it anew.
    watcher.on("error", () => (followed.staleAt = Math.min(followed.staleAt, performance.now() + againMs)));
    // What happened between the look and the watch gave no hint.
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

/** Only the directories that are named, and nothing in them: no watch per file, no listing of what is below. */
const options = { depth: 0, ignoreInitial: true, atomic: false, ignorePermissionErrors: false } as const;

/** The directory that a raw event comes from; none where chokidar was told to poll. */
function watchedPath(details: unknown): string {
  const isFromWatch = typeof details === "object" && details !== null && "watchedPath" in details;
  return isFromWatch && typeof details.watchedPath === "string" ? details.watchedPath : "";
}
