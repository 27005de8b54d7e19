import { readdir, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { isRecord } from "../../lib/record.ts";
import { Omissions, sharing, type Imported, type ImportedSlot, type Place } from "./imported.ts";
import {
  carried,
  inArguments,
  inModel,
  inRequest,
  isCount,
  joined,
  layers,
  loadMode,
  readElsewhere,
  type Mapping,
  type Setting,
} from "./mapping.ts";
import { emptySource, parsedSource, pathsBelow, SourceFault, sourceText, whyUnread } from "./source-text.ts";

/** Ollama unloads a model five minutes after its last request (its FAQ, "keep_alive"). */
const keepAliveSeconds = 300;
const layerType = "application/vnd.ollama.image.";
const digest = /^sha256[:-]([0-9a-f]{64})$/;

/** The parameters of a Modelfile (Ollama, docs/modelfile.mdx); requests to llama-server have most under the same name. */
const parameters: Mapping = {
  ...Object.fromEntries(
    "temperature top_k top_p min_p typical_p seed stop repeat_penalty repeat_last_n presence_penalty frequency_penalty mirostat mirostat_eta mirostat_tau"
      .split(" ")
      .map((key) => [key, inRequest(key)]),
  ),
  num_keep: inRequest("n_keep"),
  // Below 0 it is no limit.
  num_predict: (value) => (isCount(value) ? { request: { set: { max_tokens: value } } } : {}),
  num_ctx: inModel("contextSize"),
  num_thread: inModel("threads"),
  num_batch: inArguments("--batch-size"),
  num_gpu: (value) => ({ model: layers(Number(value)) }),
  use_mmap: (value) => (value === false ? loadMode("none") : {}),
};
/** The types of a model's layers. */
const layerTypes: Mapping = {
  ...readElsewhere("model projector params license"),
  adapter: inArguments("--lora"),
  template: "llama.cpp uses the chat template in the model's file, and not Ollama's",
  system: "a slot has no system prompt: clients send it",
  messages: "a slot has no first messages: clients send them",
};

/** A manifest of Ollama's store. */
interface StoredModel {
  /** The name that `ollama list` prints: `llama3.2:3b`, `hf.co/owner/name:Q4_K_M`. */
  readonly name: string;
  readonly file: string;
  readonly config: string | undefined;
  readonly layers: readonly Layer[];
}

interface Layer {
  readonly type: string;
  /** The file of the store, absolute. */
  readonly blob: string;
}

/**
 * Reads Ollama's store of models: `manifests/HOST/NAMESPACE/NAME/TAG` and `blobs/sha256-…` (github.com/ollama/ollama,
 * server/internal/manifest). The blobs are named where they lie. Throws CommandError where the directory is no store.
 */
export async function importOllama(directory: string): Promise<Imported> {
  const root = await storeIn(directory);
  const omissions = new Omissions();
  const models: StoredModel[] = [];
  for (const file of await pathsBelow(join(root, "manifests"), 4, omissions)) {
    const model = await storedModel(root, file, omissions);
    if (model !== undefined) models.push(model);
  }
  const slots: ImportedSlot[] = [];
  // `llama3.2:latest` and `llama3.2:3b` are often one model.
  const same = Map.groupBy(models, ({ config, layers }) => JSON.stringify([config, layers]));
  for (const [first, ...others] of same.values()) {
    if (first === undefined) continue;
    const slot = await slotOf(first, others, omissions);
    if (slot !== undefined) slots.push(slot);
  }
  if (models.length === 0 && omissions.sorted().length === 0) throw emptySource(`${root}: it holds no model`);
  return { ...sharing(slots, { name: "ollama", budget: "memory" }), omissions: omissions.sorted() };
}

/** The store: the directory itself, or `models` in it. */
async function storeIn(directory: string): Promise<string> {
  for (const root of [directory, join(directory, "models")]) {
    const status = await stat(join(root, "manifests")).catch(() => undefined);
    if (status?.isDirectory() === true) return root;
  }
  const why = await readdir(directory).then(() => "it has no directory manifests, as Ollama's models have", whyUnread);
  throw new SourceFault({ file: directory }, why, "name Ollama's directory of models, such as ~/.ollama/models");
}

async function storedModel(root: string, file: string, omissions: Omissions): Promise<StoredModel | undefined> {
  const [host = "", namespace = "", name = "", tag = ""] = relative(join(root, "manifests"), file).split("/");
  const owner = namespace === "library" ? "" : `${namespace}/`;
  const shown = `${host === "registry.ollama.ai" ? owner : `${host}/${namespace}/`}${name}:${tag}`;
  try {
    const { value } = await parsedSource(file, await sourceText(file));
    const blobOf = (entry: unknown): string | undefined => {
      const [, hash] = digest.exec(isRecord(entry) ? String(entry["digest"]) : "") ?? [];
      return hash === undefined ? undefined : join(root, "blobs", `sha256-${hash}`);
    };
    const layers = (Array.isArray(value["layers"]) ? value["layers"] : []).flatMap((layer: unknown): Layer[] => {
      const blob = blobOf(layer);
      const type = isRecord(layer) ? String(layer["mediaType"]) : "";
      return blob === undefined || !type.startsWith(layerType)
        ? []
        : [{ type: type.slice(layerType.length).split(";")[0] ?? "", blob }];
    });
    return { name: shown, file, config: blobOf(value["config"]), layers };
  } catch (error) {
    if (!(error instanceof SourceFault)) throw error;
    omissions.add(error.place, shown, error.why);
    return undefined;
  }
}

async function slotOf(
  model: StoredModel,
  others: readonly StoredModel[],
  omissions: Omissions,
): Promise<ImportedSlot | undefined> {
  const { file, config } = model;
  const names = [model, ...others].map(({ name }) => name).toSorted((a, b) => rank(a) - rank(b) || a.length - b.length);
  const [first = model.name] = names;
  const place: Place = { file };
  const blobsOf = (wanted: string): readonly string[] =>
    model.layers.flatMap(({ type, blob }) => (type === wanted ? [blob] : []));
  const refuse = (why: string): undefined => {
    omissions.add(place, first, `not carried: ${why}`);
  };
  const [path, second] = blobsOf("model");
  if (path === undefined) {
    const facts = await jsonIn(config);
    if (typeof facts["remote_host"] === "string")
      return refuse("it runs on Ollama's servers, and not on this machine; an Upstream can name a provider");
    if (blobsOf("tensor").length > 0) return refuse("its weights are safetensors, and llama.cpp loads GGUF");
    return refuse("its manifest names no weights");
  }
  if (second !== undefined)
    return refuse("its weights are several files, which llama.cpp finds by names that Ollama's store has not");
  const [projector] = blobsOf("projector");
  for (const blob of [path, ...blobsOf("projector").slice(0, 1), ...blobsOf("adapter")]) {
    const error: unknown = await stat(blob).catch((failure: unknown) => failure);
    if (error instanceof Error) return refuse(`${blob}: ${whyUnread(error)}`);
  }
  const settings = (entries: readonly (readonly [string, unknown])[]): readonly Setting[] =>
    entries.map(([key, value]) => ({ key, value, what: `${first} ${key}`, place }));
  const held = settings(model.layers.map(({ type, blob }) => [type, blob]));
  const fromLayers = carried(held, layerTypes, { omissions, otherwise: "llama-server has no such layer" });
  const params = await jsonIn(blobsOf("params")[0], (fault) =>
    omissions.add(fault.place, `${first} params`, fault.why),
  );
  const given = settings(Object.entries(params));
  const fromParameters = carried(given, parameters, { omissions, otherwise: "llama-server has no such parameter" });
  const short = first.replace(/:latest$/, "");
  return {
    name: short,
    place,
    aliases: names
      .flatMap((name) => [name, ...(name.endsWith(":latest") ? [name.replace(/:latest$/, "")] : [])])
      .filter((name) => name !== short),
    weights: { paths: [path], projector, name: short.replaceAll(/[:/]/g, "-") },
    spec: joined(fromParameters, fromLayers, { load: "onDemand", idleSeconds: keepAliveSeconds }),
  };
}

/** People call a model by its name without a tag. */
function rank(name: string): number {
  return name.endsWith(":latest") ? 0 : 1;
}

/** Empty where no file is named, and where it is no map or cannot be read, of which `note` is told. */
async function jsonIn(
  file: string | undefined,
  note: (fault: SourceFault) => void = () => undefined,
): Promise<Readonly<Record<string, unknown>>> {
  if (file === undefined) return {};
  try {
    return (await parsedSource(file, await sourceText(file))).value;
  } catch (error) {
    if (!(error instanceof SourceFault)) throw error;
    note(error);
    return {};
  }
}
