import { watch, type FSWatcher } from "node:fs";
import { join } from "node:path";

/**
 * Hints that something happened in some directories, and to which name where the system tells. Not recursive, and each
 * watch is of an inode: whoever uses it says after every look which directories it looked at, and looks now and then
 * without a hint.
 */
export class DirectoryWatch implements Disposable {
  readonly #onHint: (path?: string) => void;
  readonly #watchers = new Map<string, FSWatcher>();

  /** Hears the path that an event names; nothing when anything may have happened. */
  constructor(onHint: (path?: string) => void) {
    this.#onHint = onHint;
  }

  /** Watches exactly these: paths by an identity that changes with the directory behind the path. */
  follow(directories: ReadonlyMap<string, string>): void {
    const wanted = new Map([...directories].map(([path, identity]) => [`${identity} ${path}`, path]));
    for (const [key, watcher] of this.#watchers) {
      if (wanted.has(key)) continue;
      watcher.close();
      this.#watchers.delete(key);
    }
    let isNew = false;
    for (const [key, path] of wanted) {
      if (this.#watchers.has(key)) continue;
      try {
        const watcher = watch(path, (_, name) => this.#onHint(name === null ? undefined : join(path, name)));
        // Losing a watcher loses only hints; the next look makes another.
        watcher.on("error", () => {
          watcher.close();
          this.#watchers.delete(key);
        });
        this.#watchers.set(key, watcher);
        isNew = true;
      } catch {
        // It went away, or the system has no watch left to give: the sweep looks.
      }
    }
    // What happened between the look and the watch gave no hint.
    if (isNew) this.#onHint();
  }

  [Symbol.dispose](): void {
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }
}
