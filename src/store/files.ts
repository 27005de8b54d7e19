import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import { watch as watchTree } from "chokidar";
import type { Kind } from "../api/names.ts";
import { completeSlot } from "../api/slot.ts";
import type { PublishedSlot } from "../api/status.ts";
import { listManifests, type Listing } from "./listing.ts";
import { directoryOfKind, readManifests, type Declaration } from "./manifest.ts";
import type { Desired, DesiredSource, Diagnostic, SourceProblem } from "./store.ts";

export interface FileSourceOptions {
  readonly configDir: string;
  /** What an earlier operator published: its specs stay in force until the files say otherwise. */
  readonly seed?: readonly PublishedSlot[];
  readonly now?: () => Date;
  /** Between looks without any event. */
  readonly sweepMs?: number;
}

interface FileEntry {
  readonly stamp: string;
  readonly declarations: readonly Declaration[];
  /** When the file was first missed; undefined while it is there. */
  readonly missedAt: number | undefined;
}

type AnyDesired = Desired<Kind>;

/** A removal acts when the file has been gone this long and a second look agrees (DECISIONS 7). */
const removalMs = 2000;
/** A file that was written this recently may still be half-written: a broken one is looked at again first. */
const settleMs = 100;
const keyOf = (kind: Kind, name: string): string => `${kind}/${name}`;

/** Watches a configuration directory. Throws nothing on what people write: problems are diagnostics. */
export async function openFileSource(options: FileSourceOptions): Promise<DesiredSource> {
  const source = new FileSource(options);
  await source.open();
  return source;
}

/**
 * The directory as an API server. Events only hint; one look (`readdir`, `stat`) decides, reads the files whose
 * stamp changed, and tells the keys whose resource is now another.
 */
class FileSource implements DesiredSource {
  readonly #configDir: string;
  readonly #now: () => Date;
  readonly #sweepMs: number;
  readonly #files = new Map<string, FileEntry>();
  /** Which files declare a key, in path order when read. */
  readonly #claims = new Map<string, Set<string>>();
  readonly #resources = new Map<string, AnyDesired>();
  readonly #listeners = new Set<(kind: Kind, name: string) => void>();
  readonly #stack = new AsyncDisposableStack();
  /** The directories that held the files seen last: another inode is another directory. */
  #identity = "";
  #problems: readonly SourceProblem[] = [];
  #looking: Promise<void> | undefined;
  #isDirty = false;
  #soon: NodeJS.Timeout | undefined;
  #again: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: FileSourceOptions) {
    this.#configDir = options.configDir;
    this.#now = options.now ?? (() => new Date());
    this.#sweepMs = options.sweepMs ?? 10_000;
    for (const slot of options.seed ?? []) this.#plant(slot);
  }

  async open(): Promise<void> {
    await this.#look();
    // chokidar throttles its own events and delays removals; the raw ones under them come at once.
    const watcher = watchTree(this.#configDir, { ignoreInitial: true, depth: 1, ignorePermissionErrors: true });
    this.#stack.defer(() => watcher.close());
    const hint = (): void => this.#lookSoon();
    watcher.on("raw", hint).on("all", hint);
    // Losing the watcher loses only hints: the sweep still looks.
    watcher.on("error", hint);
    const sweep = setInterval(hint, this.#sweepMs);
    sweep.unref();
    this.#stack.defer(() => clearInterval(sweep));
    await new Promise<void>((resolve) => watcher.once("ready", () => resolve()));
    await this.resync();
  }

  get<K extends Kind>(kind: K, name: string): Desired<K> | undefined {
    const found = this.#resources.get(keyOf(kind, name));
    return found === undefined || !isOfKind(found, kind) ? undefined : found;
  }

  list<K extends Kind>(kind: K): readonly Desired<K>[] {
    return [...this.#resources.values()].filter((desired) => isOfKind(desired, kind));
  }

  problems(): readonly SourceProblem[] {
    return this.#problems;
  }

  watch(onKey: (kind: Kind, name: string) => void): Disposable {
    this.#listeners.add(onKey);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onKey) };
  }

  async resync(): Promise<void> {
    if (this.#looking !== undefined) {
      this.#isDirty = true;
      return await this.#looking;
    }
    this.#looking = (async () => {
      do {
        this.#isDirty = false;
        await this.#look();
      } while (this.#isDirty && !this.#isClosed);
    })();
    try {
      await this.#looking;
    } finally {
      this.#looking = undefined;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#soon);
    clearTimeout(this.#again);
    this.#listeners.clear();
    await this.#stack.disposeAsync();
    await this.#looking;
  }

  /** A slot that was published from a file: the file counts as seen, with a stamp that no real one has. */
  #plant(slot: PublishedSlot): void {
    if (slot.file === undefined) return;
    const declaration: Declaration = {
      kind: "Slot",
      name: slot.name,
      file: slot.file,
      spec: completeSlot(slot.name, slot.spec),
      specHash: slot.specHash,
      labels: slot.labels,
      annotations: {},
      diagnostics: [],
    };
    const known = this.#files.get(slot.file)?.declarations ?? [];
    this.#files.set(slot.file, { stamp: "seed", declarations: [...known, declaration], missedAt: undefined });
    this.#claim(declaration);
    this.#resources.set(keyOf("Slot", slot.name), { ...declaration, kind: "Slot", since: new Date(0) });
  }

  #lookSoon(): void {
    if (this.#soon !== undefined || this.#isClosed) return;
    // Long enough for the events of one save to fall together, short against what a person notices.
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      void this.resync();
    }, 5);
  }

  #lookIn(ms: number): void {
    clearTimeout(this.#again);
    this.#again = setTimeout(() => void this.resync(), ms);
    this.#again.unref();
  }

  async #look(): Promise<void> {
    const listing = await listManifests(this.#configDir, Object.values(directoryOfKind));
    const problems: SourceProblem[] = [...listing.problems];
    const touched = new Set<string>();
    let laterMs = Infinity;
    for (const [file, { stamp, mtimeMs }] of listing.files) {
      const known = this.#files.get(file);
      if (known?.stamp === stamp) {
        if (known.missedAt !== undefined) this.#files.set(file, { ...known, missedAt: undefined });
        continue;
      }
      const declarations = await this.#read(file, known);
      if (declarations === undefined) continue;
      const isBroken = declarations.some(({ diagnostics }) => diagnostics.length > 0);
      const age = this.#now().getTime() - mtimeMs;
      if (isBroken && age >= 0 && age < settleMs) {
        laterMs = Math.min(laterMs, settleMs - age + 5);
        continue;
      }
      this.#replace(file, { stamp, declarations, missedAt: undefined }, touched);
    }
    laterMs = Math.min(laterMs, this.#missing(listing, problems, touched));
    if (listing.files.size > 0 && listing.problems.length === 0) this.#identity = listing.identity;
    this.#problems = problems;
    if (Number.isFinite(laterMs)) this.#lookIn(laterMs);
    for (const key of touched) this.#settle(key);
  }

  /** Decides about files that are not there any more. Returns when to look again. */
  #missing(listing: Listing, problems: SourceProblem[], touched: Set<string>): number {
    const gone = [...this.#files].filter(([file]) => !listing.files.has(file));
    if (gone.length === 0) return Infinity;
    // What could not be read says nothing about what is in it.
    if (listing.problems.length > 0) return Infinity;
    const isAnother = this.#identity === "" || this.#identity !== listing.identity;
    const isAllAtOnce = listing.files.size === 0 && (gone.length > 1 || isAnother);
    if (isAllAtOnce) {
      const message = `${this.#configDir} holds no manifest any more; the ${gone.length} known before stay in force until one is there`;
      problems.push({ reason: "SourceEmpty", message, file: this.#configDir });
      return Infinity;
    }
    const now = this.#now().getTime();
    let laterMs = Infinity;
    for (const [file, entry] of gone) {
      if (entry.missedAt === undefined) {
        this.#files.set(file, { ...entry, missedAt: now });
        laterMs = Math.min(laterMs, removalMs);
      } else if (now - entry.missedAt >= removalMs) this.#replace(file, undefined, touched);
      else laterMs = Math.min(laterMs, removalMs - (now - entry.missedAt));
    }
    return laterMs + 5;
  }

  async #read(file: string, known: FileEntry | undefined): Promise<readonly Declaration[] | undefined> {
    let text: string;
    try {
      text = await readFile(file, "utf8");
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const diagnostic: Diagnostic = { reason: "Unreadable", file, message: `cannot be read: ${message}` };
      return known?.declarations.map((declaration) => ({ ...declaration, diagnostics: [diagnostic] }));
    }
    const declarations = readManifests(file, text);
    const [only] = declarations;
    // A text that does not parse says nothing of which resources it declares: those it declared before keep it.
    const isUnparsed =
      declarations.length === 1 && only?.spec === undefined && only?.diagnostics[0]?.path === undefined;
    return isUnparsed && known !== undefined && known.declarations.length > 0
      ? known.declarations.map((before) => ({ ...before, spec: undefined, diagnostics: only?.diagnostics ?? [] }))
      : declarations;
  }

  #replace(file: string, entry: FileEntry | undefined, touched: Set<string>): void {
    for (const { kind, name } of this.#files.get(file)?.declarations ?? []) {
      const key = keyOf(kind, name);
      touched.add(key);
      this.#claims.get(key)?.delete(file);
    }
    if (entry === undefined) {
      this.#files.delete(file);
      return;
    }
    this.#files.set(file, entry);
    for (const declaration of entry.declarations) touched.add(this.#claim(declaration));
  }

  #claim({ kind, name, file }: Declaration): string {
    const key = keyOf(kind, name);
    const files = this.#claims.get(key) ?? new Set();
    this.#claims.set(key, files.add(file));
    return key;
  }

  /** Makes the resource of a key anew from the files that declare it, and tells when it is another. */
  #settle(key: string): void {
    const before = this.#resources.get(key);
    const after = this.#resourceOf(key, before);
    if (after === undefined) {
      if (before === undefined) return;
      this.#resources.delete(key);
      this.#claims.delete(key);
    } else {
      if (before !== undefined && isSame(before, after)) return;
      this.#resources.set(key, after);
    }
    const { kind, name } = after ?? before ?? { kind: "Slot" as const, name: "" };
    for (const listener of this.#listeners) listener(kind, name);
  }

  #resourceOf(key: string, before: AnyDesired | undefined): AnyDesired | undefined {
    const declarations = [...(this.#claims.get(key) ?? [])]
      .toSorted()
      .flatMap((file) => this.#files.get(file)?.declarations ?? [])
      .filter(({ kind, name }) => keyOf(kind, name) === key);
    const incumbent = declarations.find(({ file }) => file === before?.file) ?? declarations[0];
    if (incumbent === undefined) return undefined;
    const duplicates = declarations
      .filter((declaration) => declaration !== incumbent)
      .map(({ file, kind, name }): Diagnostic => {
        const message = `${kind} ${name} is already defined by ${basename(incumbent.file)}, which stays in force`;
        return { reason: "DuplicateResource", file, message };
      });
    const lastGood = before?.spec;
    const spec = incumbent.spec ?? lastGood;
    const isLastGood = incumbent.spec === undefined && lastGood !== undefined;
    const specHash = isLastGood ? (before?.specHash ?? incumbent.specHash) : incumbent.specHash;
    const desired = {
      kind: incumbent.kind,
      name: incumbent.name,
      spec,
      specHash,
      labels: incumbent.spec === undefined && before !== undefined ? before.labels : incumbent.labels,
      annotations: incumbent.annotations,
      file: incumbent.file,
      since: before?.since ?? this.#now(),
      diagnostics: [...incumbent.diagnostics, ...duplicates],
    };
    return desired;
  }
}

function isOfKind<K extends Kind>(desired: AnyDesired, kind: K): desired is AnyDesired & Desired<K> {
  return desired.kind === kind;
}

function isSame(a: AnyDesired, b: AnyDesired): boolean {
  const { since: _a, spec: _aSpec, ...restA } = a;
  const { since: _b, spec: _bSpec, ...restB } = b;
  return JSON.stringify(restA) === JSON.stringify(restB);
}
