import { watch, type FSWatcher } from "node:fs";
import { mkdir, readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ModelRecord, ModelSpec } from "../api/model.ts";
import { modelRefSchema, type ModelCapability } from "../api/names.ts";
import { GgufError, readGguf, type GgufFacts } from "./gguf.ts";

export interface DeclaredModel {
  readonly name: string;
  readonly spec: ModelSpec;
  readonly since: Date;
}

/** What can be served from this machine's disk: files found, and models that people declared. */
export interface ModelRegistry extends AsyncDisposable {
  /** One record per ref, declared ones first. Never throws on a bad file: that is the record's state. */
  records(declared: readonly DeclaredModel[]): Promise<readonly ModelRecord[]>;
  /** Hints that files came, went or changed. */
  watch(onChange: () => void): Disposable;
}

const sweepMs = 5000;
const shard = /^(?<base>.+)-(?<index>\d{5})-of-(?<count>\d{5})$/;
/** Architectures that exist only to embed (llama.cpp's names). */
const embedders =
  /^(bert|nomic-bert|nomic-bert-moe|jina-bert-v2|jina-bert-v3|gemma-embedding|t5encoder|modern-bert|neo-bert)$/;

type Known =
  | { readonly facts: GgufFacts }
  | { readonly failure: { readonly reason: "NotAModel" | "TruncatedModel" | "Unreadable"; readonly message: string } };

/** Follows `modelsDir`, which is made when it is not there. */
export async function openRegistry(options: { modelsDir: string }): Promise<ModelRegistry> {
  await mkdir(options.modelsDir, { recursive: true });
  return new FileRegistry(options.modelsDir);
}

class FileRegistry implements ModelRegistry {
  readonly #modelsDir: string;
  /** Header facts by path and stamp: a resync reads no file that did not change. */
  readonly #facts = new Map<string, { stamp: string; known: Known }>();
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  #watcher: FSWatcher | undefined;
  #lastListing = "";

  constructor(modelsDir: string) {
    this.#modelsDir = modelsDir;
    try {
      this.#watcher = watch(modelsDir, { recursive: true }, () => this.#tell());
      this.#watcher.on("error", () => this.#watcher?.close());
    } catch {
      this.#watcher = undefined;
    }
    this.#timer = setInterval(() => void this.#sweep(), sweepMs);
    this.#timer.unref();
  }

  watch(onChange: () => void): Disposable {
    this.#listeners.add(onChange);
    return { [Symbol.dispose]: () => void this.#listeners.delete(onChange) };
  }

  async records(declared: readonly DeclaredModel[]): Promise<readonly ModelRecord[]> {
    const records = new Map<string, ModelRecord>();
    const files = await this.#files();
    for (const { name, spec, since } of declared) {
      const ref = spec.ref ?? name;
      if (!records.has(ref)) records.set(ref, await this.#declared(ref, spec, since, files));
    }
    const claimed = new Set([...records.values()].flatMap(({ files: claimedFiles }) => claimedFiles));
    for (const { ref, paths } of groups(files)) {
      if (records.has(ref) || paths.some((path) => claimed.has(path)) || !modelRefSchema.safeParse(ref).success)
        continue;
      records.set(ref, await this.#record(ref, paths, projectorBeside(paths[0] ?? "", files)));
    }
    return [...records.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listeners.clear();
    this.#watcher?.close();
    clearInterval(this.#timer);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  async #sweep(): Promise<void> {
    const files = await this.#files();
    const stamps = await Promise.all(files.map(async (file) => `${file} ${(await stampOf(file)) ?? ""}`));
    const listing = stamps.join("\n");
    if (listing !== this.#lastListing) {
      this.#lastListing = listing;
      this.#tell();
    }
  }

  /** Every GGUF file, in order; two levels deep, links followed. */
  async #files(): Promise<string[]> {
    const found: string[] = [];
    const visit = async (directory: string, depth: number): Promise<void> => {
      const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
      for (const entry of entries) {
        if (entry.name.startsWith(".")) continue;
        const path = join(directory, entry.name);
        if (entry.name.endsWith(".gguf")) found.push(path);
        else if (depth > 0 && (entry.isDirectory() || entry.isSymbolicLink())) await visit(path, depth - 1);
      }
    };
    await visit(this.#modelsDir, 2);
    return found.toSorted();
  }

  async #declared(ref: string, spec: ModelSpec, since: Date, files: readonly string[]): Promise<ModelRecord> {
    const sources = spec.files?.map(({ source }) => source) ?? (spec.source === undefined ? [] : [spec.source]);
    const source = sources[0] ?? "";
    const facts = declaredFacts(spec);
    const base = { ref, origin: "manifest" as const, source, created: Math.floor(since.getTime() / 1000), ...facts };
    const paths = sources.flatMap((each) => pathOf(each) ?? []);
    if (paths.length < sources.length) {
      return {
        ...base,
        files: [],
        capabilities: spec.capabilities ?? [],
        state: "unsupported",
        reason: "UnsupportedSource",
        message: `${source} cannot be fetched by this version: use a file:// source, or put the file into the models directory`,
      };
    }
    const models = paths.filter((path) => !isProjector(path));
    const record = await this.#record(ref, models, paths.find(isProjector) ?? projectorBeside(models[0] ?? "", files));
    // A declared fact wins over the header's; what was not declared comes from the file.
    return { ...record, ...base, capabilities: spec.capabilities ?? record.capabilities };
  }

  async #record(ref: string, paths: readonly string[], projector: string | undefined): Promise<ModelRecord> {
    const [first = ""] = paths;
    const base = {
      ref,
      origin: "file" as const,
      source: `file://${first}`,
      path: first,
      files: [...paths],
      created: 0,
      capabilities: [],
    };
    const stamps: string[] = [];
    let sizeBytes = 0;
    let newest = 0;
    for (const path of paths) {
      const found = await stat(path).catch(() => undefined);
      if (found === undefined) {
        return { ...base, state: "missing", reason: "ModelFileMissing", message: `${path} is not there` };
      }
      stamps.push(`${found.size}:${found.mtimeMs}`);
      sizeBytes += found.size;
      newest = Math.max(newest, found.mtimeMs);
    }
    const seen = { ...base, created: Math.floor(newest / 1000), sizeBytes, fingerprint: stamps.join(" ") };
    let parameters = 0;
    let head: GgufFacts | undefined;
    for (const path of paths) {
      const known = await this.#read(path);
      if ("failure" in known) {
        const { reason, message } = known.failure;
        return { ...seen, state: "invalid", reason, message: `${path} ${message}` };
      }
      head ??= known.facts;
      parameters += known.facts.parameters;
    }
    if (head !== undefined && head.splitCount > paths.length) {
      const message = `${first} is one of ${head.splitCount} parts; ${paths.length} are there`;
      return { ...seen, state: "invalid", reason: "TruncatedModel", message };
    }
    const { architecture, contextLength, quantization, pooling, name } = head ?? {};
    return {
      ...seen,
      parameters,
      capabilities: capabilitiesOf(head, projector !== undefined),
      ...(architecture === undefined ? {} : { architecture }),
      ...(contextLength === undefined ? {} : { contextLength }),
      ...(quantization === undefined ? {} : { quantization }),
      ...(pooling === undefined ? {} : { pooling }),
      ...(name === undefined ? {} : { family: name }),
      ...(projector === undefined ? {} : { projectorPath: projector }),
      state: "available",
    };
  }

  async #read(path: string): Promise<Known> {
    const stamp = (await stampOf(path)) ?? "";
    const cached = this.#facts.get(path);
    if (cached?.stamp === stamp) return cached.known;
    let known: Known;
    try {
      known = { facts: await readGguf(path) };
    } catch (error) {
      const reason = error instanceof GgufError ? error.reason : "Unreadable";
      const cause = error instanceof Error ? error.message : String(error);
      known = { failure: { reason, message: error instanceof GgufError ? cause : `cannot be read: ${cause}` } };
    }
    this.#facts.set(path, { stamp, known });
    return known;
  }
}

function declaredFacts(spec: ModelSpec): Partial<ModelRecord> {
  const { engines, license, licenseUrl, contextLength, parameters, quantization, family, sizeBytes, sha256 } = spec;
  return {
    ...(engines === undefined ? {} : { engines }),
    ...(license === undefined ? {} : { license }),
    ...(licenseUrl === undefined ? {} : { licenseUrl }),
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(quantization === undefined ? {} : { quantization }),
    ...(family === undefined ? {} : { family }),
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(sha256 === undefined ? {} : { sha256 }),
  };
}

async function stampOf(path: string): Promise<string | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? undefined : `${found.ino}:${found.size}:${found.mtimeMs}`;
}

function isProjector(path: string): boolean {
  return /^mmproj/i.test(basename(path));
}

const stem = (path: string): string => basename(path, ".gguf");

function projectorBeside(path: string, files: readonly string[]): string | undefined {
  // Only a directory of its own says which model a projector belongs to.
  const beside = files.filter((file) => dirname(file) === dirname(path));
  const projectors = beside.filter(isProjector);
  const models = beside.filter(
    (file) => !isProjector(file) && (shard.exec(stem(file))?.groups?.["index"] ?? "00001") === "00001",
  );
  return projectors.length === 1 && models.length === 1 ? projectors[0] : undefined;
}

/** Files by model: shards of one model are one, projectors are none. */
function groups(files: readonly string[]): { ref: string; paths: string[] }[] {
  const found = new Map<string, { ref: string; paths: string[] }>();
  for (const path of files) {
    if (isProjector(path)) continue;
    const ref = shard.exec(stem(path))?.groups?.["base"] ?? stem(path);
    const key = shard.test(stem(path)) ? `${dirname(path)}/${ref}` : path;
    const group = found.get(key) ?? { ref, paths: [] };
    group.paths.push(path);
    found.set(key, group);
  }
  return [...found.values()];
}

function pathOf(source: string): string | undefined {
  if (!source.startsWith("file:///")) return undefined;
  try {
    return fileURLToPath(source);
  } catch {
    return undefined;
  }
}

function capabilitiesOf(facts: GgufFacts | undefined, hasProjector: boolean): ModelCapability[] {
  if (facts?.pooling === "rank") return ["rerank"];
  const isEmbedder = facts?.architecture !== undefined && embedders.test(facts.architecture);
  if (isEmbedder || (facts?.pooling !== undefined && facts.pooling !== "none")) return ["embed"];
  return hasProjector ? ["chat", "vision"] : ["chat"];
}
