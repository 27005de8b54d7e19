import { resourceKey } from "../../api/resource-status.ts";
import { statSync } from "node:fs";
import { dirname } from "node:path";
import { directoryOfKind, type Kind } from "../../api/names.ts";
import type { PublishedRegistry, PublishedSlot } from "../../api/status.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { Distrust } from "../../lib/trusted-path.ts";
import { DeclaredFiles, type FileEntry } from "./declared-files.ts";
import { DirectoryWatch } from "./directory-watch.ts";
import { listFile, listManifests, youngMs, type ListedFile, type Listing } from "./listing.ts";
import { readFileEntry } from "./file-read.ts";
import { problemsOf, unsafeDirectories } from "./manifest-text.ts";
import { MissingFiles, removalMs } from "./missing-files.ts";
import { declarationsBefore } from "./published-declarations.ts";
import type { Removals } from "../state/removals.ts";
import type { Desired, DesiredSource, SourceProblem } from "../store.ts";

export interface FileSourceOptions {
  readonly configDir: string;
  /** The slots that an earlier operator published: their specs stay in force until the files say otherwise. */
  readonly seed?: readonly PublishedSlot[];
  readonly seedRegistry?: PublishedRegistry;
  /** The resources that the API was asked to remove. */
  readonly removals?: Removals;
  readonly now?: () => Date;
  /** The interval of resyncs without any event. */
  readonly sweepMs?: number;
}

/** A file that was written this recently may still be half-written: an invalid one is read again first. */
const settleMs = 250;

/** The time of day at the start, continued by a clock that nobody sets: ages must not jump with the other. */
const steadyNow = (): Date => new Date(performance.timeOrigin + performance.now());

/** Watches a configuration directory. Throws nothing on what people write: problems are diagnostics. */
export async function openFileSource(options: FileSourceOptions): Promise<DesiredSource> {
  const source = new FileSource(options);
  await source.open();
  return source;
}

/**
 * The directory as an API server. Events are hints; a listing (`readdir`, `stat`) decides, reads the files whose
 * stamp changed, and reports the keys whose resource has changed. Where events name only plain files that are known,
 * a check of these is enough: an entry that appears, vanishes or becomes a link requires a full listing.
 */
class FileSource implements DesiredSource {
  readonly #configDir: string;
  readonly #now: () => Date;
  readonly #sweepMs: number;
  readonly #declared: DeclaredFiles;
  readonly #removals: Removals | undefined;
  readonly #missing: MissingFiles;
  readonly #subscribers = new Subscribers<[kind: Kind, name: string]>();
  readonly #watch = new DirectoryWatch((path) => this.#hint(path));
  readonly #stack = new AsyncDisposableStack();
  #problems: readonly SourceProblem[] = [];
  /** Directories in which another user may make or remove files. */
  #unsafe: ReadonlyMap<string, Distrust> = new Map();
  #resyncing: Promise<void> | undefined;
  #isDirty = false;
  /** Known files that events have named since they were read. */
  readonly #named = new Set<string>();
  /** The files that were read since the last full listing began. */
  #readSince = new Set<string>();
  /** When files that had a text were first seen without one. */
  readonly #emptySince = new Map<string, number>();
  #soon: NodeJS.Timeout | undefined;
  #isFullReadDue = false;
  #again: { readonly at: number; readonly timer: NodeJS.Timeout } | undefined;
  #isClosed = false;

  constructor(options: FileSourceOptions) {
    this.#configDir = options.configDir;
    this.#now = options.now ?? steadyNow;
    this.#sweepMs = options.sweepMs ?? 10_000;
    this.#declared = new DeclaredFiles(this.#now);
    this.#removals = options.removals;
    this.#missing = new MissingFiles(this.#declared, this.#removals, this.#now);
    const { configDir, seed = [], seedRegistry } = options;
    for (const declaration of declarationsBefore(configDir, seed, seedRegistry)) this.#declared.plant(declaration);
  }

  async open(): Promise<void> {
    this.#stack.use(this.#watch);
    this.#removals?.watch(() => void this.resync());
    const sweep = setInterval(() => void this.resync(), this.#sweepMs);
    sweep.unref();
    this.#stack.defer(() => clearInterval(sweep));
    await this.resync();
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    return this.#declared.get(kind, name);
  }

  list<K extends Kind>(kind: K): readonly Desired<K>[] {
    return this.#declared.list(kind);
  }

  problems(): readonly SourceProblem[] {
    return [...this.#problems, ...this.#declared.undeclared()];
  }

  watch(onKey: (kind: Kind, name: string) => void): Disposable {
    return this.#subscribers.add(onKey);
  }

  resync(): Promise<void> {
    this.#isDirty = true;
    this.#resyncing ??= this.#resyncWhileDirty();
    return this.#resyncing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#soon);
    clearTimeout(this.#again?.timer);
    this.#subscribers.clear();
    await this.#stack.disposeAsync();
    await this.#resyncing;
  }

  #hint(path: string | undefined): void {
    if (this.#isClosed) return;
    if (path !== undefined && this.#declared.file(path) !== undefined) this.#named.add(path);
    else this.#isFullReadDue = true;
    // Long enough for the events of one save to fall together, short against what a person notices.
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      const isFullReadDue = this.#isFullReadDue;
      this.#isFullReadDue = false;
      if (!this.#readNamed() || isFullReadDue) void this.resync();
    }, 5);
  }

  #resyncIn(ms: number): void {
    clearTimeout(this.#again?.timer);
    const timer = setTimeout(() => {
      this.#again = undefined;
      void this.resync();
    }, ms);
    timer.unref();
    this.#again = { at: performance.now() + ms, timer };
  }

  async #resyncWhileDirty(): Promise<void> {
    try {
      while (this.#isDirty && !this.#isClosed) {
        this.#isDirty = false;
        await this.#list();
      }
    } finally {
      // In the same step as the last check: a caller either joins a resync that will still list, or starts one.
      this.#resyncing = undefined;
    }
  }

  /** Reads the files that events named. False: not all of them are known plain files, and nothing was done. */
  #readNamed(): boolean {
    if (this.#isClosed) return true;
    const files = [...this.#named].map((file) => ({ file, listed: listFile(file), known: this.#declared.file(file) }));
    this.#named.clear();
    if (files.some(({ listed, known }) => listed === undefined || known?.missedAt !== undefined)) return false;
    if (unsafeDirectories(new Set(files.map(({ file }) => dirname(file)))).size > 0) return false;
    for (const { file } of files) this.#readSince.add(file);
    const touched = new Set<string>();
    let laterMs = Infinity;
    for (const { file, listed, known } of files) {
      if (listed === undefined || known?.stamp === listed.stamp) continue;
      this.#take(file, listed, known, touched);
      laterMs = Math.min(laterMs, this.#forgetDropped(file, touched));
    }
    if (laterMs < (this.#again?.at ?? Infinity) - performance.now()) this.#resyncIn(laterMs);
    this.#settle(touched);
    return true;
  }

  async #list(): Promise<void> {
    const readSince = new Set<string>();
    this.#readSince = readSince;
    const listing = await listManifests(this.#configDir, Object.values(directoryOfKind));
    this.#unsafe = unsafeDirectories(listing.directories.keys());
    // After the listing: whatever it lacks at the API's word was recorded before.
    if ([...this.#declared.files().keys()].some((file) => !listing.files.has(file))) await this.#removals?.scan();
    if (!this.#isClosed) this.#watch.follow(listing.watched);
    const touched = new Set<string>();
    let laterMs = Infinity;
    for (const [file, listed] of listing.files) {
      // A file that was read while the list was made is younger than the list.
      if (readSince.has(file)) continue;
      const known = this.#declared.file(file);
      if (known?.stamp === listed.stamp) {
        if (known.missedAt !== undefined) this.#declared.replace(file, { ...known, missedAt: undefined }, touched);
      } else this.#take(file, listed, known, touched);
      laterMs = Math.min(laterMs, this.#forgetDropped(file, touched));
    }
    const missing = this.#missing.judge(withoutProof(listing, this.#unsafe), readSince, touched);
    laterMs = Math.min(laterMs, missing.laterMs);
    this.#problems = [...listing.problems, ...problemsOf(this.#unsafe), ...missing.problems];
    if (Number.isFinite(laterMs)) this.#resyncIn(laterMs);
    this.#settle(touched);
  }

  #settle(touched: ReadonlySet<string>): void {
    for (const key of touched) {
      const changed = this.#declared.settle(key);
      if (changed !== undefined) this.#subscribers.notify(changed.kind, changed.name);
    }
  }

  /** Reads a file that is new or another, and glances at it again where it may be another soon. */
  #take(file: string, listed: ListedFile, known: FileEntry | undefined, touched: Set<string>): void {
    const { stamp, isYoung } = listed;
    const read = readFileEntry(file, known, this.#unsafe.get(dirname(file)));
    if (read === undefined) return;
    if (isYoung) this.#readNamedIn(file, youngMs + 5);
    if (read.text !== undefined && read.declarations.some(({ diagnostics }) => diagnostics.length > 0)) {
      const ageMs = Math.min(ageOf(file, listed), this.#emptyForMs(file, read.text, known));
      if (ageMs < settleMs) {
        this.#readNamedIn(file, settleMs - ageMs + 5);
        return;
      }
    }
    this.#emptySince.delete(file);
    // A stamp that may serve twice, or stands for nothing that was read, is not kept.
    const kept = isYoung || read.text === undefined ? "again" : stamp;
    const declared = new Set(read.declarations.map(({ kind, name }) => resourceKey({ kind, name })));
    const now = this.#now().getTime();
    const before = known?.declarations.map((declaration) => ({ declaration, at: now })) ?? [];
    const dropped = [...(known?.dropped ?? []), ...before].filter(
      ({ declaration: { kind, name } }) => !declared.has(resourceKey({ kind, name })),
    );
    this.#declared.replace(file, { ...read, stamp: kept, dropped, missedAt: undefined }, touched);
  }

  /** ext4 shows for a moment that a file was emptied, and not yet when: its age is then that of its last text. */
  #emptyForMs(file: string, text: string, known: FileEntry | undefined): number {
    if (text !== "" || known?.text === undefined || known.text === "") return Infinity;
    const now = this.#now().getTime();
    const since = this.#emptySince.get(file) ?? now;
    this.#emptySince.set(file, since);
    return now - since;
  }

  #readNamedIn(file: string, ms: number): void {
    setTimeout(() => this.#hint(file), ms).unref();
  }

  /** Removes what a file has not declared for long enough. Returns the milliseconds until the next resync. */
  #forgetDropped(file: string, touched: Set<string>): number {
    const entry = this.#declared.file(file);
    if (entry === undefined || entry.dropped.length === 0) return Infinity;
    const now = this.#now().getTime();
    const dropped = entry.dropped.filter(({ at }) => now - at < removalMs);
    if (dropped.length < entry.dropped.length) this.#declared.replace(file, { ...entry, dropped }, touched);
    return Math.min(...dropped.map(({ at }) => removalMs - (now - at) + 5));
  }
}

/** How long ago it was written; 0 also where that was since it was listed, between which and now it was read. */
function ageOf(file: string, listed: ListedFile): number {
  const now = statSync(file, { throwIfNoEntry: false });
  if (now?.mtimeMs !== listed.mtimeMs || now.size !== listed.sizeBytes) return 0;
  return Math.abs(Date.now() - now.mtimeMs);
}

/** A file that another user may have removed is no deletion. */
function withoutProof(listing: Listing, unsafe: ReadonlyMap<string, Distrust>): Listing {
  if (unsafe.size === 0) return listing;
  const directories = [...listing.directories].map(([path, each]) => {
    return [path, unsafe.has(path) ? { ...each, isConclusive: false } : each] as const;
  });
  return { ...listing, directories: new Map(directories) };
}
