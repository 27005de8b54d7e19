import { setTimeout as delay } from "node:timers/promises";
import { parseJson } from "../lib/json.ts";
import { isRecord } from "../lib/record.ts";
import { steadyNow } from "../lib/steady-clock.ts";
import { isStatus, statusError } from "./api-error.ts";
import { listPages } from "./list-pages.ts";
import type { ListWatchCounts, ListWatchOptions } from "./list-watch-options.ts";
import { isNewer, isOlder, ObjectCache } from "./object-cache.ts";
import { readObject, type KubeObject } from "./object.ts";

const firstDelayMs = 100;
const longestDelayMs = 2000;
/** The API server ends a watch after this; its bookmarks come about once a minute. */
const defaultWatchSeconds = 50;
/** A watch that is open for longer than it may be, by this part of its time, is hung. */
const grace = 0.1;
/**
 * After so many times of a watch without a line, not even a bookmark, another list tells what there is: a datastore that
 * was restored from a backup counts versions from an earlier one, and a watch from a later version tells nothing.
 */
const idleWatches = 2;
/** Objects missing from a list are asked for again after this. */
const secondListMs = 250;
/** A watch is opened again within 2 s, unless the API server does not answer. */
const followingMs = 5000;

interface Listed {
  readonly version: string;
  readonly objects: ReadonlyMap<string, KubeObject>;
}

/**
 * The objects of one collection, followed: a paged list, then a watch with bookmarks, which is opened again from the last
 * version after every end. After an error it waits, 2 s at most, and never gives up.
 */
export class ListWatch implements AsyncDisposable {
  readonly #options: ListWatchOptions;
  readonly #cache = new ObjectCache();
  readonly #stop = new AbortController();
  readonly #counts = { lists: 0, watches: 0, events: 0, stale: 0, errors: 0, handlerErrors: 0 };
  readonly #synced = Promise.withResolvers<void>();
  #running: Promise<void> = Promise.resolve();
  #version: string | undefined;
  /** The newest resourceVersion of all lists and events. */
  #newestVersion = "1";
  #lastReceivedMs = 0;
  #failures = 0;
  #isSynced = false;
  #isConnected = false;
  #openedMs = 0;
  #endedMs = -Infinity;
  #earlierMs = 0;

  private constructor(options: ListWatchOptions) {
    this.#options = options;
  }

  /** Begins; `synced` resolves after the first list. */
  static start(options: ListWatchOptions): ListWatch {
    const started = new ListWatch(options);
    started.#running = started.#run();
    return started;
  }

  get(name: string): KubeObject | undefined {
    return this.#cache.get(name);
  }

  values(): readonly KubeObject[] {
    return this.#cache.values();
  }

  get counts(): ListWatchCounts {
    return { ...this.#counts };
  }

  /** The first list is there. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  /** The watch is open now. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** How long a watch was open until now, in milliseconds: a publisher without a heartbeat in that time is silent. */
  get connectedMs(): number {
    return this.#earlierMs + (this.#isConnected ? steadyNow() - this.#openedMs : 0);
  }

  /** The watch is open, or ended so shortly ago that the next one goes on where it was: no change is missing. */
  get isFollowing(): boolean {
    return this.#isConnected || (this.#isSynced && steadyNow() - this.#endedMs < followingMs);
  }

  async synced(signal?: AbortSignal): Promise<void> {
    if (signal === undefined) return await this.#synced.promise;
    signal.throwIfAborted();
    const ended = Promise.withResolvers<never>();
    const onAbort = (): void => ended.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      await Promise.race([this.#synced.promise, ended.promise]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Stores the API server's answer to a write of this process, before the watch delivers it. */
  note(value: unknown): void {
    const object = this.#read(value);
    if (object !== undefined && this.#cache.put(object)) this.#notify([object.meta.name]);
  }

  /** Applies `keep` to what was read before it began to keep less. */
  shrink(): void {
    const { keep } = this.#options;
    if (keep !== undefined) this.#cache.replaceValues(keep);
  }

  /** Lists again unless the watch tells of every change anyway. */
  async refresh(): Promise<void> {
    if (!this.isFollowing) await this.#list();
  }

  /** Lists again now. */
  async resync(): Promise<void> {
    await this.#list();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#synced.resolve();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.#isStale()) this.#version = undefined;
        if (this.#version === undefined) await this.#list();
        await this.#watch();
      } catch (error) {
        if (signal.aborted) return;
        this.#failed(error);
      }
      if (this.#failures > 0) await delay(this.#backOffMs(), undefined, { signal }).catch(() => undefined);
    }
  }

  #isStale(): boolean {
    const { watchSeconds = defaultWatchSeconds } = this.#options;
    return steadyNow() - this.#lastReceivedMs > idleWatches * watchSeconds * 1000;
  }

  #failed(error: unknown): void {
    this.#failures += 1;
    // The versions since are no longer kept. Another list tells what there is now.
    if (isStatus(error, 410)) {
      this.#version = undefined;
      return;
    }
    this.#counts.errors += 1;
    this.#options.onError?.(error);
  }

  /** Between a half and the whole of it, so that many clients of a server that is back do not come at once. */
  #backOffMs(): number {
    const wholeMs = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(this.#failures - 1, 10));
    return wholeMs * (0.5 + Math.random() / 2);
  }

  async #list(): Promise<void> {
    const newest = this.#cache.newest(this.#newestVersion);
    let found = await this.#pages();
    const isMissing = (): boolean => this.#cache.names().some((name) => !found.objects.has(name));
    // Versions only grow, unless the datastore was restored from a backup.
    const isRestored = (): boolean => isOlder(found.version, newest);
    if ((isMissing() || isRestored()) && !this.#stop.signal.aborted) {
      // A list that lacks what was there may come from a server that has not read all of its own store yet.
      await delay(secondListMs, undefined, { signal: this.#stop.signal });
      const again = await this.#pages();
      for (const [name, object] of found.objects) if (!again.objects.has(name)) this.#cache.put(object);
      found = again;
    }
    let changed: readonly string[];
    if (isRestored()) {
      changed = this.#cache.replace(found.objects);
      this.#newestVersion = found.version;
    } else changed = this.#merge(found);
    this.#follow(found.version);
    this.#lastReceivedMs = steadyNow();
    this.#isSynced = true;
    this.#synced.resolve();
    if (changed.length > 0) this.#notify(changed);
  }

  /** The names of the objects of which the list told something new. */
  #merge({ version, objects }: Listed): readonly string[] {
    const changed = [...objects.values()].flatMap((object) => (this.#cache.put(object) ? [object.meta.name] : []));
    for (const { meta } of this.#cache.values()) {
      // The watch may have told of an object since the list was made.
      if (objects.has(meta.name) || isNewer(meta.resourceVersion, version)) continue;
      if (this.#cache.delete(meta.name, meta.uid, version)) changed.push(meta.name);
    }
    return changed;
  }

  async #pages(): Promise<Listed> {
    const objects = new Map<string, KubeObject>();
    const version = await listPages(this.#options.client, this.#options, {
      signal: this.#stop.signal,
      onPage: () => (this.#counts.lists += 1),
      onItem: (item) => {
        const object = this.#read(item);
        if (object !== undefined) objects.set(object.meta.name, object);
      },
    });
    return { version, objects };
  }

  async #watch(): Promise<void> {
    const { client, path, labelSelector, fieldSelector, watchSeconds = defaultWatchSeconds } = this.#options;
    const timeoutSeconds = Math.ceil(watchSeconds * (0.8 + Math.random() * 0.4));
    const hung = AbortSignal.timeout(timeoutSeconds * 1000 + watchSeconds * 1000 * grace);
    const signal = AbortSignal.any([this.#stop.signal, hung]);
    const query = {
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: this.#version,
      timeoutSeconds,
      labelSelector,
      fieldSelector,
    };
    this.#counts.watches += 1;
    const began = performance.now();
    try {
      const lines = await client.lines(path, { query, signal });
      this.#openedMs = steadyNow();
      this.#isConnected = true;
      for await (const line of lines) {
        this.#event(line);
        this.#lastReceivedMs = steadyNow();
        this.#failures = 0;
      }
      // An end in good order: the next watch begins at once, unless the server ends each of them at once.
      if (performance.now() - began < 1000) this.#failures += 1;
      else this.#failures = 0;
    } finally {
      if (this.#isConnected) this.#endedMs = steadyNow();
      this.#earlierMs = this.connectedMs;
      this.#isConnected = false;
    }
  }

  #event(line: string): void {
    if (line === "") return;
    const event = parseJson(line);
    if (!isRecord(event) || !isRecord(event["object"])) throw new Error("a watch event that is none");
    const { type, object: value } = event;
    if (type === "ERROR") throw statusError(event["object"]);
    const object = this.#read(value);
    if (type === "BOOKMARK") {
      const metadata = event["object"]["metadata"];
      if (isRecord(metadata) && typeof metadata["resourceVersion"] === "string")
        this.#follow(metadata["resourceVersion"]);
      return;
    }
    if (object === undefined) throw new Error("a watch event without an object's name");
    this.#counts.events += 1;
    const { name, uid, resourceVersion } = object.meta;
    const isNew = type === "DELETED" ? this.#cache.delete(name, uid, resourceVersion) : this.#cache.put(object);
    this.#follow(resourceVersion);
    if (isNew) this.#notify([name]);
    else this.#counts.stale += 1;
  }

  #follow(version: string): void {
    this.#version = version;
    if (isOlder(this.#newestVersion, version)) this.#newestVersion = version;
  }

  #read(value: unknown): KubeObject | undefined {
    const object = readObject(value);
    const { keep } = this.#options;
    return object === undefined || keep === undefined ? object : { ...object, value: keep(object.value) };
  }

  #notify(names: readonly string[]): void {
    try {
      this.#options.onChange(names);
    } catch (error) {
      this.#counts.handlerErrors += 1;
      this.#options.onError?.(error);
    }
  }
}
