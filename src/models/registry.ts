import { watch, type FSWatcher } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { pathToFileURL } from "node:url";
import type { ModelRecord, ModelSpec } from "../api/model.ts";
import { modelRefSchema } from "../api/names.ts";
import { sha256 } from "../lib/canonical.ts";
import { mapLimited } from "../lib/map-limited.ts";
import { Subscribers } from "../lib/subscribers.ts";
import { FactCache, stampOf } from "./facts.ts";
import type { HeaderFiles } from "./header-files.ts";
import { Listing, modelFiles, projectorsAmong, type ModelFiles, type Projectors } from "./model-files.ts";
import type { FlmTool } from "./fetch/flm.ts";
import type { CatalogSpecs } from "./catalog-specs.ts";
import type { Licenses } from "./licenses.ts";
import { storeDirectory, type BlobStore } from "./fetch/blob-store.ts";
import { declaredPaths, declaredRecord, fetchedRecord, fileRecord, type FetchedModel } from "./record.ts";

export interface DeclaredModel {
  readonly name: string;
  readonly spec: ModelSpec;
  readonly since: Date;
}

/** The models on this machine's disk: files found, and models that manifests declare. */
export interface ModelRegistry extends AsyncDisposable {
  /** One record per ref, declared ones first. Never throws on a bad file: the fault is in the record. */
  records(declared: readonly DeclaredModel[]): Promise<readonly ModelRecord[]>;
  /** Hints that files were added, removed or changed, also those that the last `records` was given. */
  watch(onChange: () => void): Disposable;
}

/** The part of the store of fetched files that the registry reads. */
export type FetchedModels = Pick<BlobStore, "list" | "pathsOf" | "watch">;

/** Models whose files are looked at together; their headers are read one after the other. */
const readsAtOnce = 16;
/** A file that grows by many writes causes one hint in this time. */
const gatherMs = 100;

export interface RegistryOptions {
  readonly modelsDir: string;
  /** The fetched models; absent: no model is fetched here. */
  readonly fetched?: FetchedModels;
  /** Licences that must be accepted before a model is fetched. Asked again by each sweep after it has rejected. */
  readonly licenses?: () => Promise<Licenses>;
  /** The catalogue's specs of fetched models; absent: none. */
  readonly catalog?: () => Promise<CatalogSpecs>;
  /** FastFlowLM's own store; absent: its models are not fetched. */
  readonly flm?: Pick<FlmTool, "observe" | "watch">;
  readonly headers?: HeaderFiles;
  /** The models that an earlier operator published: their files keep their names. */
  readonly before?: readonly Pick<ModelRecord, "ref" | "path">[];
  readonly sweepMs?: number;
}

/** Watches `modelsDir`, which is made when it is missing. A sweep finds a change whose event is lost. */
export async function openRegistry(options: RegistryOptions): Promise<ModelRegistry> {
  await mkdir(options.modelsDir, { recursive: true });
  return new FileRegistry(options);
}

class FileRegistry implements ModelRegistry {
  readonly #modelsDir: string;
  readonly #fetched: FetchedModels | undefined;
  readonly #listing: Listing;
  readonly #licenses: (() => Promise<Licenses>) | undefined;
  readonly #catalog: RegistryOptions["catalog"];
  readonly #flm: RegistryOptions["flm"];
  readonly #watchingFlm: Disposable | undefined;
  readonly #cache: FactCache;
  readonly #subscribers = new Subscribers<[]>();
  readonly #sweeper: NodeJS.Timeout;
  readonly #watching: Disposable | undefined;
  #watcher: FSWatcher | undefined;
  #gathering: NodeJS.Timeout | undefined;
  /** The first file of each ref, as the last `records` has chosen it. */
  #inForce: ReadonlyMap<string, string | undefined>;
  /** Files outside the models directory that Models name. */
  #elsewhere: readonly string[] = [];
  /** The state that the last `records`, or the sweep after it, has read. */
  #lastState: string | undefined;
  #isSweeping = false;

  constructor({ modelsDir, fetched, licenses, catalog, flm, headers, before = [], sweepMs = 5000 }: RegistryOptions) {
    this.#inForce = new Map(before.map(({ ref, path }) => [ref, path]));
    this.#cache = new FactCache(headers);
    this.#licenses = licenses && (async () => await this.#readLicenses(licenses));
    this.#catalog = catalog;
    this.#flm = flm;
    this.#watchingFlm = flm?.watch(() => this.#gather());
    this.#modelsDir = modelsDir;
    this.#fetched = fetched;
    this.#listing = new Listing(modelsDir);
    this.#watching = fetched?.watch(() => this.#gather());
    this.#follow();
    this.#sweeper = setInterval(() => void this.#sweep(), sweepMs);
    this.#sweeper.unref();
  }

  watch(onChange: () => void): Disposable {
    return this.#subscribers.add(onChange);
  }

  async records(declared: readonly DeclaredModel[]): Promise<readonly ModelRecord[]> {
    const files = await this.#listing.read();
    const fetched = new Map<string, FetchedModel>();
    for (const model of this.#fetched?.list() ?? [])
      fetched.set(model.ref, { model, paths: this.#fetched?.pathsOf(model) ?? [] });
    this.#elsewhere = [
      ...declared.flatMap(({ spec }) => declaredPaths(spec)),
      ...[...fetched.values()].flatMap(({ paths }) => paths),
    ];
    const known = [...files, ...this.#elsewhere];
    // Before the files are read: a change from here on is found by the next sweep.
    this.#lastState = await stateOf(known);
    this.#cache.keep(new Set(known));
    const own = await this.#cache.projectorsIn(files);
    const isProjector = (path: string): boolean => own.has(path);
    const projectors = projectorsAmong(files, isProjector);
    const records = new Map<string, ModelRecord>();
    const add = async <T>(
      found: ReadonlyMap<string, T>,
      recordOf: (item: T) => Promise<ModelRecord>,
    ): Promise<void> => {
      const missing = [...found].filter(([ref]) => !records.has(ref));
      for (const record of await mapLimited(missing, readsAtOnce, async ([, item]) => await recordOf(item)))
        records.set(record.ref, record);
    };
    await add(firsts(declared, refOf), (model) =>
      declaredRecord(this.#cache, model, projectors, {
        fetched: fetched.get(refOf(model)),
        licenses: this.#licenses,
        flm: this.#flm,
      }),
    );
    await add(fetched, async (known) => fetchedRecord(this.#cache, known, (await this.#catalog?.())?.(known.model)));
    // A file that a Model names belongs to that model, and is no further model.
    const claimed = new Set([...records.values()].flatMap((record) => record.files));
    const free = modelFiles(files, isProjector).filter(({ paths }) => !paths.some((path) => claimed.has(path)));
    const isNamed = ({ ref }: ModelFiles): boolean => modelRefSchema.safeParse(ref).success;
    await add(
      Map.groupBy(free.filter(isNamed), ({ ref }) => ref),
      (found) => this.#chosen(found, projectors),
    );
    const attached = new Set([
      ...[...records.values()].map(({ projectorPath }) => projectorPath),
      ...declared.flatMap(({ spec }) => declaredPaths(spec)),
    ]);
    const left = [...own].filter((path) => !attached.has(path)).map(projectorAlone);
    for (const record of [...left, ...free.filter((model) => !isNamed(model)).map(unnamed)])
      if (!records.has(record.ref)) records.set(record.ref, record);
    this.#inForce = new Map([...records].map(([ref, { path }]) => [ref, path]));
    return [...records.values()];
  }

  /**
   * One of the files of one name: the file in force while it is whole, or else the first whole file. A copy elsewhere, or
   * another way to the same file, changes nothing.
   */
  async #chosen(found: readonly ModelFiles[], projectors: Projectors): Promise<ModelRecord> {
    const rank = ({ ref, paths: [first = ""] }: ModelFiles): number =>
      first === this.#inForce.get(ref) ? 0 : first.length;
    const records: ModelRecord[] = [];
    for (const files of found.toSorted((one, other) => rank(one) - rank(other))) {
      const record = await fileRecord(this.#cache, files, projectors.get(dirname(files.paths[0] ?? "")));
      if (record.state === "available") return record;
      records.push(record);
    }
    const [first] = records;
    if (first === undefined) throw new Error("no file has the name");
    return first;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#subscribers.clear();
    this.#watcher?.close();
    this.#watching?.[Symbol.dispose]();
    this.#watchingFlm?.[Symbol.dispose]();
    clearInterval(this.#sweeper);
    clearTimeout(this.#gathering);
  }

  /** After a failure the next sweep reports a change, so that the records are made again. */
  async #readLicenses(licenses: () => Promise<Licenses>): Promise<Licenses> {
    try {
      return await licenses();
    } catch (error) {
      this.#lastState = otherState;
      throw error;
    }
  }

  #follow(): void {
    try {
      this.#watcher = watch(this.#modelsDir, { recursive: true, persistent: false }, (_event, name) => {
        // Files are written to all the time while they are fetched: the store reports the end.
        if (name?.startsWith(`${storeDirectory}/`) !== true) this.#gather();
      });
      this.#watcher.on("error", () => {
        // Without a watcher the sweep alone finds changes.
        this.#watcher?.close();
        this.#watcher = undefined;
      });
    } catch {
      this.#watcher = undefined;
    }
  }

  #gather(): void {
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#subscribers.notify();
    }, gatherMs).unref();
  }

  async #sweep(): Promise<void> {
    if (this.#isSweeping) return;
    this.#isSweeping = true;
    try {
      const before = this.#lastState;
      const state = await stateOf([...(await this.#listing.read()), ...this.#elsewhere]);
      // `records` was not called yet, or was called meanwhile and has newer data.
      if (before === undefined || this.#lastState !== before || state === before) return;
      this.#lastState = state;
      this.#subscribers.notify();
    } finally {
      this.#isSweeping = false;
    }
  }
}

/** The record of a file that is no model for anybody, so that people find it in the list. */
function notOffered(path: string, name: string | undefined, message: string): ModelRecord {
  return {
    ref: modelRefSchema.safeParse(name).data ?? `unnamed-${sha256(path).slice(0, 8)}`,
    origin: "file",
    source: pathToFileURL(path).href,
    path,
    files: [path],
    created: 0,
    capabilities: [],
    state: "invalid",
    reason: "NotAModel",
    message,
  };
}

function unnamed({ ref: name, paths: [path = ""] }: ModelFiles): ModelRecord {
  const message = `"${name}" can be no name of a model: rename ${path} to letters, digits and . _ : @ -`;
  return notOffered(path, undefined, message);
}

function projectorAlone(path: string): ModelRecord {
  const message = `${path} is a projector for pictures, and no model: it is used where one model alone lies beside it, or where a manifest's files or a slot's model.projector name it`;
  return notOffered(path, basename(path).replace(/\.gguf$/i, ""), message);
}

/** Differs from the state of any files. */
const otherState = "?";

const refOf = ({ name, spec }: DeclaredModel): string => spec.ref ?? name;

/** The first item of each key. */
function firsts<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, T> {
  const found = new Map<string, T>();
  for (const item of items) if (!found.has(keyOf(item))) found.set(keyOf(item), item);
  return found;
}

/** A text that differs when one of the files does. */
async function stateOf(files: readonly string[]): Promise<string> {
  const stamps = await Promise.all(
    files.map(async (file) => {
      const stamp = await stampOf(file).catch(() => undefined);
      return `${file} ${stamp?.text ?? "-"}`;
    }),
  );
  return stamps.join("\n");
}
