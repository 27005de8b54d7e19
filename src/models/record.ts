import { fileURLToPath } from "node:url";
import type { ModelRecord, ModelSpec } from "../api/model.ts";
import type { ModelCapability } from "../api/names.ts";
import type { FactCache, FileStamp } from "./facts.ts";
import type { GgufFacts } from "./gguf.ts";
import { isProjector, modelFiles, projectorBeside, type ModelFiles } from "./model-files.ts";

/** Architectures that exist only to embed (llama.cpp's names). */
const embedders =
  /^(bert|nomic-bert|nomic-bert-moe|jina-bert-v2|jina-bert-v3|gemma-embedding|t5encoder|modern-bert|neo-bert|eurobert)$/;

/** The record of files as they lie there. */
export async function fileRecord(
  cache: FactCache,
  { ref, paths, shardCount }: ModelFiles,
  projector: string | undefined,
): Promise<ModelRecord> {
  const [first = ""] = paths;
  const base: ModelRecord = {
    ref,
    origin: "file",
    source: `file://${first}`,
    path: first,
    files: [...paths],
    created: 0,
    capabilities: [],
    state: "available",
  };
  const stamps: FileStamp[] = [];
  let head: GgufFacts | undefined;
  let parameters = 0;
  for (const path of paths) {
    const found = await cache.look(path);
    if (found.stamp !== undefined) stamps.push(found.stamp);
    if ("reason" in found) {
      const { reason, message } = found;
      const state = reason === "ModelFileMissing" ? "missing" : "invalid";
      return { ...base, ...seen(stamps), state, reason, message };
    }
    head ??= found.facts;
    parameters += found.facts?.parameters ?? 0;
  }
  const expected = Math.max(shardCount, head?.splitCount ?? 1);
  if (expected > paths.length) {
    const message = `${first} is one of ${expected} parts; ${paths.length} ${paths.length === 1 ? "is" : "are"} there`;
    return { ...base, ...seen(stamps), state: "invalid", reason: "TruncatedModel", message };
  }
  if (head === undefined) return { ...base, ...seen(stamps) };
  const { architecture, contextLength, contextBytesPerToken, quantization, pooling } = head;
  return {
    ...base,
    ...seen(stamps),
    parameters,
    capabilities: capabilitiesOf(head, projector !== undefined),
    ...(architecture === undefined ? {} : { architecture, family: architecture }),
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(contextBytesPerToken === undefined ? {} : { contextBytesPerToken }),
    ...(quantization === undefined ? {} : { quantization }),
    ...(pooling === undefined ? {} : { pooling }),
    ...(projector === undefined ? {} : { projectorPath: projector }),
  };
}

/** The record of a Model that a person declared; what they said wins over what the file says. */
export async function declaredRecord(
  cache: FactCache,
  { name, spec, since }: { readonly name: string; readonly spec: ModelSpec; readonly since: Date },
  files: readonly string[],
): Promise<ModelRecord> {
  const ref = spec.ref ?? name;
  const sources = sourcesOf(spec);
  const base = {
    ref,
    origin: "manifest" as const,
    name,
    source: sources[0] ?? "",
    created: Math.floor(since.getTime() / 1000),
    ...declaredFacts(spec),
  };
  const refused = (reason: "UnsupportedSource" | "NotAModel", message: string): ModelRecord => {
    const state = reason === "UnsupportedSource" ? "unsupported" : "invalid";
    return { ...base, files: [], capabilities: spec.capabilities ?? [], state, reason, message };
  };
  const paths: string[] = [];
  for (const source of sources) {
    const path = pathOf(source);
    if (path !== undefined) paths.push(path);
    else if (source.startsWith("file://")) return refused("UnsupportedSource", `${source} is no file:///absolute/path`);
    else {
      const message = `${source} cannot be fetched by this version: use a file:// source, or put the file into the models directory`;
      return refused("UnsupportedSource", message);
    }
  }
  const models = paths.filter((path) => !isProjector(path));
  const [first, second] = modelFiles(models);
  if (first === undefined) return refused("NotAModel", `${base.source} is a projector, not a model`);
  const projector = paths.find(isProjector) ?? projectorBeside(first.paths[0] ?? "", files);
  // A person may name shards as they like; without shard names the parts are those that are listed.
  const whole = second === undefined ? first : { ...first, paths: models, shardCount: models.length };
  const record = await fileRecord(cache, { ...whole, ref }, projector);
  const merged = { ...record, ...base, capabilities: spec.capabilities ?? record.capabilities };
  if (record.state !== "available" || spec.sizeBytes === undefined || spec.sizeBytes === record.sizeBytes)
    return merged;
  return {
    ...merged,
    state: "invalid",
    reason: (record.sizeBytes ?? 0) < spec.sizeBytes ? "TruncatedModel" : "NotAModel",
    message: `${record.path ?? ref} has ${record.sizeBytes ?? 0} bytes, not the ${spec.sizeBytes} that its manifest says`,
  };
}

/** Absolute paths of the `file://` sources. */
export function declaredPaths(spec: ModelSpec): readonly string[] {
  return sourcesOf(spec).flatMap((source) => pathOf(source) ?? []);
}

function sourcesOf(spec: ModelSpec): readonly string[] {
  return spec.files?.map(({ source }) => source) ?? (spec.source === undefined ? [] : [spec.source]);
}

function seen(stamps: readonly FileStamp[]): Partial<ModelRecord> {
  if (stamps.length === 0) return {};
  return {
    created: Math.max(0, ...stamps.map(({ modifiedMs }) => Math.floor(modifiedMs / 1000))),
    sizeBytes: stamps.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
    fingerprint: stamps.map(({ sizeBytes, modifiedMs }) => `${sizeBytes}:${modifiedMs}`).join(" "),
  };
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

function pathOf(source: string): string | undefined {
  if (!source.startsWith("file:///")) return undefined;
  try {
    return fileURLToPath(source);
  } catch {
    return undefined;
  }
}

function capabilitiesOf(facts: GgufFacts, hasProjector: boolean): ModelCapability[] {
  if (facts.pooling === "rank") return ["rerank"];
  const isEmbedder = facts.architecture !== undefined && embedders.test(facts.architecture);
  if (isEmbedder || (facts.pooling !== undefined && facts.pooling !== "none")) return ["embed"];
  return hasProjector ? ["chat", "vision"] : ["chat"];
}
