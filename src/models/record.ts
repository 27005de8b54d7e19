import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { ModelRecord, ModelSpec, WantedFile } from "../api/model.ts";
import type { PulledModel } from "../api/pulled-model.ts";
import { errorMessage } from "../lib/error-code.ts";
import { licenseText, type Licenses } from "./licenses.ts";
import { flmTag, type FlmTool } from "./fetch/flm.ts";
import { filesOf, isWanted, remoteFiles } from "./fetch/wanted-model.ts";
import type { ModelCapability } from "../api/names.ts";
import type { FactCache, FileStamp } from "./facts.ts";
import type { GgufFacts } from "./gguf.ts";
import type { FileKind } from "./gguf-types.ts";
import { modelFiles, type ModelFiles, type Projectors } from "./model-files.ts";

/** Architectures that can only embed (llama.cpp's names). */
const embedders =
  /^(bert|nomic-bert|nomic-bert-moe|jina-bert-v2|jina-bert-v3|gemma-embedding|t5encoder|modern-bert|neo-bert|eurobert)$/;

/** Why a file is no model that could answer, by what its header says it is. */
const noModels: Partial<Record<FileKind, string>> = {
  adapter: "an adapter (LoRA) for another model, not a model",
  imatrix: "an importance matrix, from which quantised models are made, not a model",
  vocab: "a vocabulary without weights, not a model",
};

/** The record of files as they are on disk. */
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
    const found = await cache.factsOf(path);
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
  const other = head.kind === undefined ? undefined : noModels[head.kind];
  if (other !== undefined)
    return { ...base, ...seen(stamps), state: "invalid", reason: "NotAModel", message: `${first} is ${other}` };
  const { architecture, contextLength, quantization, pooling, hasChatTemplate } = head;
  const contextCost = paths.length === 1 ? head.contextCost : await cache.contextCostOf(paths);
  return {
    ...base,
    ...seen(stamps),
    parameters,
    capabilities: capabilitiesOf(head, projector !== undefined),
    ...(architecture === undefined ? {} : { architecture, family: architecture }),
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(contextCost === undefined ? {} : { contextCost }),
    ...(quantization === undefined ? {} : { quantization }),
    ...(pooling === undefined ? {} : { pooling }),
    ...(hasChatTemplate === undefined ? {} : { hasChatTemplate }),
    ...(projector === undefined ? {} : { projectorPath: projector }),
  };
}

/** The fetched files of a ref. */
export interface FetchedModel {
  readonly model: PulledModel;
  /** Absolute, in order. */
  readonly paths: readonly string[];
}

/** The stores and lists that a record of a fetched model is made from. */
export interface Fetchers {
  readonly fetched?: FetchedModel | undefined;
  /** Asked only for a model that would be fetched: it reads the catalogue. Where that rejects the model is not fetched. */
  readonly licenses?: (() => Promise<Licenses>) | undefined;
  /** FastFlowLM's tool; absent: no model of it is fetched. */
  readonly flm?: Pick<FlmTool, "observe"> | undefined;
}

/** The record of a Model from a manifest; its fields take precedence over the file's. */
export async function declaredRecord(
  cache: FactCache,
  { name, spec, since }: { readonly name: string; readonly spec: ModelSpec; readonly since: Date },
  projectors: Projectors,
  { fetched, licenses, flm }: Fetchers = {},
): Promise<ModelRecord> {
  const ref = spec.ref ?? name;
  const sources = filesOf(spec).map(({ source }) => source);
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
  const tag = flmTag(filesOf(spec));
  if (tag !== undefined && flm !== undefined) {
    const found = await flm.observe(tag);
    if (found.state === "unavailable") return refused("UnsupportedSource", found.message);
    const known = { ...base, files: [], sizeBytes: found.sizeBytes, capabilities: spec.capabilities ?? [] };
    if (found.state === "whole") return { ...known, path: found.directory, state: "available" };
    const message = `${ref} is not whole in FastFlowLM's store: a slot that needs it has it fetched, and so has \`berth model pull ${ref}\``;
    return { ...known, state: "missing", reason: "NotFetched", message, fetch: { files: [...filesOf(spec)] } };
  }
  let remote: readonly WantedFile[];
  try {
    remote = remoteFiles(filesOf(spec));
  } catch (error) {
    return refused("UnsupportedSource", errorMessage(error));
  }
  const sizeBytes = remote.length === sources.length ? spec.sizeBytes : undefined;
  const fetch = { files: [...remote], ...(sizeBytes === undefined ? {} : { sizeBytes }) };
  const notFetched = async (): Promise<ModelRecord> => {
    const obstacle = spec.acceptLicense ? undefined : await licenseObstacle(remote, licenses);
    if (obstacle !== undefined) {
      const message = `${obstacle}; then run \`berth model pull ${ref} --accept-license\`, or set acceptLicense in the manifest`;
      const missing = { files: [], capabilities: spec.capabilities ?? [], message, fetch };
      return { ...base, ...missing, state: "missing", reason: "LicenseNotAccepted" };
    }
    const message = `${ref} is not on this machine yet: a slot that needs it has it fetched, and so has \`berth model pull ${ref}\``;
    const unknown = { files: [], capabilities: spec.capabilities ?? [], message, fetch };
    return { ...base, ...unknown, state: "missing", reason: "NotFetched" };
  };
  const arrived = fetched !== undefined && isWanted(fetched.model, remote) ? [...fetched.paths] : [];
  if (arrived.length < remote.length) return await notFetched();
  const paths = sources.flatMap((source) => pathOf(source) ?? arrived.shift() ?? []);
  const record = await recordOf(cache, ref, paths, projectors);
  if (record === undefined) return refused("NotAModel", `${base.source} is a projector, not a model`);
  if (remote.length > 0 && record.state === "missing") return await notFetched();
  const [pulled] = fetched?.model.files ?? [];
  const recorded = remote.length === 1 && paths.length === 1 && pulled !== undefined ? { sha256: pulled.sha256 } : {};
  const merged = { ...record, ...recorded, ...base, capabilities: spec.capabilities ?? record.capabilities };
  if (record.state !== "available" || spec.sizeBytes === undefined || spec.sizeBytes === record.sizeBytes)
    return merged;
  return {
    ...merged,
    state: "invalid",
    reason: (record.sizeBytes ?? 0) < spec.sizeBytes ? "TruncatedModel" : "NotAModel",
    message: `${record.path ?? ref} has ${record.sizeBytes ?? 0} bytes, not the ${spec.sizeBytes} that its manifest says`,
  };
}

/** Why these files are not fetched before a person has accepted their licence; undefined: nothing has to be accepted. */
async function licenseObstacle(
  files: readonly WantedFile[],
  licenses: Fetchers["licenses"],
): Promise<string | undefined> {
  try {
    const restricted = (await licenses?.())?.(files);
    return restricted === undefined ? undefined : licenseText(restricted);
  } catch (error) {
    return `nothing is fetched for now: Berth's catalogue, which says whether a licence must be accepted, cannot be read (${errorMessage(error)}); it is read again every few seconds. To go on without it read the model's licence`;
  }
}

/**
 * The record of what was fetched and no manifest declares. `catalogued`: the catalogue's spec of these files. The facts that
 * the files have take precedence over those of the catalogue, but for the capabilities.
 */
export async function fetchedRecord(
  cache: FactCache,
  { model, paths }: FetchedModel,
  catalogued?: ModelSpec,
): Promise<ModelRecord> {
  const [first] = model.files;
  const facts = {
    source: first?.source ?? "",
    created: Math.floor(Date.parse(model.pulledAt) / 1000),
    ...(model.files.length === 1 && first !== undefined ? { sha256: first.sha256 } : {}),
  };
  const record = await recordOf(cache, model.ref, paths, new Map());
  const origin = "file" as const;
  if (record !== undefined) {
    const known = catalogued === undefined ? {} : declaredFacts(catalogued);
    const capabilities = catalogued?.capabilities ?? record.capabilities;
    return { ...known, ...record, ...facts, capabilities, origin };
  }
  const message = `${facts.source} is a projector, not a model`;
  return {
    ...facts,
    ref: model.ref,
    origin,
    files: [...paths],
    capabilities: [],
    state: "invalid",
    reason: "NotAModel",
    message,
  };
}

/** The record of one model's files, shards in order and a projector anywhere; undefined where there is only a projector. */
async function recordOf(
  cache: FactCache,
  ref: string,
  paths: readonly string[],
  projectors: Projectors,
): Promise<ModelRecord | undefined> {
  const own = await cache.projectorsIn(paths);
  const models = paths.filter((path) => !own.has(path));
  const [first, second] = modelFiles(models, (path) => own.has(path));
  if (first === undefined) return undefined;
  const projector = [...own][0] ?? projectors.get(dirname(first.paths[0] ?? ""));
  // A person may name shards freely; without shard names the listed files are the parts.
  const whole = second === undefined ? first : { ...first, paths: models, shardCount: models.length };
  const record = await fileRecord(cache, { ...whole, ref }, projector);
  // Its size is that of all its files, as it is fetched.
  for (const path of own) {
    const found = await cache.factsOf(path);
    if ("reason" in found && found.reason === "ModelFileMissing")
      return { ...record, state: "missing", reason: found.reason, message: found.message };
    record.sizeBytes = (record.sizeBytes ?? 0) + (found.stamp?.sizeBytes ?? 0);
  }
  return record;
}

/** Absolute paths of the `file://` sources. */
export function declaredPaths(spec: ModelSpec): readonly string[] {
  return filesOf(spec).flatMap(({ source }) => pathOf(source) ?? []);
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
  const { minVramBytes, memoryBytes } = spec;
  return {
    ...(minVramBytes === undefined ? {} : { minVramBytes }),
    ...(memoryBytes === undefined ? {} : { memoryBytes }),
    ...(engines === undefined ? {} : { engines }),
    ...(license === undefined ? {} : { license }),
    ...(licenseUrl === undefined ? {} : { licenseUrl }),
    ...(contextLength === undefined ? {} : { contextLength }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(quantization === undefined ? {} : { quantization }),
    ...(family === undefined ? {} : { family }),
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...checksumsOf(spec),
  };
}

function checksumsOf(spec: ModelSpec): Pick<ModelRecord, "checksums"> {
  const known = filesOf(spec).flatMap(({ source, sha256 }) => {
    const path = pathOf(source);
    return path === undefined || sha256 === undefined ? [] : [[path, sha256] as const];
  });
  return known.length === 0 ? {} : { checksums: Object.fromEntries(known) };
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
