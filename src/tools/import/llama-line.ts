import { resolve } from "node:path";
import type { SlotCapability } from "../../api/names.ts";
import { ownKey, withoutSecrets, type LineContext, type SlotFields, type Weights } from "./imported.ts";
import { layers } from "./mapping.ts";
import { literal } from "./words.ts";

/**
 * The flags that are fields of a slot, or that Berth sets itself (llama.cpp, tools/server/README.md). `given` has a value
 * and `set` none: Berth decides both. All other flags stay arguments.
 */
const flags = [
  ["model", "-m --model"],
  ["projector", "-mm --mmproj"],
  ["repo", "-hf -hfr --hf-repo -mu --model-url -dr --docker-repo -hff --hf-file"],
  ["context", "-c --ctx-size"],
  ["parallel", "-np --parallel"],
  ["gpuLayers", "-ngl --gpu-layers --n-gpu-layers"],
  ["threads", "-t --threads"],
  ["alias", "-a --alias"],
  ["idle", "--sleep-idle-seconds"],
  ["key", "--api-key --api-key-file -hft --hf-token"],
  ["given", "--host --port"],
  ["set", "--jinja --metrics --no-webui --no-ui --webui --ui"],
  ["embedding", "--embedding --embeddings"],
  ["reranking", "--rerank --reranking"],
] as const;
type Meaning = (typeof flags)[number][0];
const meanings = new Map(flags.flatMap(([meaning, names]) => names.split(" ").map((name) => [name, meaning] as const)));

/** The arguments of llama-server in fields of a slot. */
export interface LlamaLine {
  /** The file, as the line names it. */
  readonly model: string | undefined;
  readonly projector: string | undefined;
  /** llama-server fetches the model itself. */
  readonly fetches: boolean;
  readonly aliases: readonly string[];
  readonly idleSeconds: number | undefined;
  readonly spec: Pick<SlotFields, "args" | "capabilities"> & { readonly model: NonNullable<SlotFields["model"]> };
}

/** Reads the words after the program. What no slot says goes into `omissions` with the place. */
export function llamaLine(
  words: readonly string[],
  { omissions, place, name }: Omit<LineContext, "directory">,
): LlamaLine {
  const values = new Map<Meaning, string>();
  const others: string[] = [];
  let fetches = false;
  let capability: SlotCapability | undefined;
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? "";
    const meaning = meanings.get(word);
    if (meaning === undefined) others.push(word);
    else if (meaning === "embedding") capability = "embeddings";
    else if (meaning === "reranking") capability = "rerank";
    else if (meaning !== "set") {
      at += 1;
      values.set(meaning, words[at] ?? "");
      if (meaning === "repo") fetches = true;
      if (meaning === "key") omissions.add(place, `${name} ${word}`, keyReason(word));
    }
  }
  const count = (meaning: Meaning, least = 1): number | undefined => {
    const text = values.get(meaning) ?? "";
    const value = Number(text);
    return /^\d+$/.test(text) && value >= least ? value : undefined;
  };
  const args = withoutSecrets(others, { omissions, place, name }).map(literal);
  const parallel = count("parallel") ?? 1;
  const tokens = count("context");
  const isShared = args.some((word) => word === "-kvu" || word === "--kv-unified");
  // With one cache for all, each request may take the whole; and 0 means the model's longest.
  if (values.has("context") && (tokens === undefined || isShared)) args.push("-c", values.get("context") ?? "0");
  return {
    model: values.get("model"),
    projector: values.get("projector"),
    fetches,
    aliases: (values.get("alias") ?? "").split(",").flatMap((alias) => alias.trim() || []),
    idleSeconds: count("idle"),
    spec: {
      model: {
        contextSize: tokens === undefined || isShared ? undefined : Math.max(1, Math.floor(tokens / parallel)),
        ...layersOf(values.get("gpuLayers")),
        parallel,
        threads: count("threads"),
      },
      capabilities: capability === undefined ? undefined : [capability],
      args,
    },
  };
}

/** Why a slot runs a line as it is. */
export const fetchesItself =
  "llama-server fetches this model itself, unseen by Berth; `berth model pull` and model.default would let Berth judge its memory";

/** The files of a line, of which relative ones start at the directory; undefined where llama-server fetches its model itself. */
export function weightsOf(
  { model, projector, fetches }: LlamaLine,
  { omissions, place, name, directory }: LineContext,
): Weights | undefined {
  if (model === undefined || fetches) {
    omissions.add(place, name, fetchesItself);
    return undefined;
  }
  const path = resolve(directory, model);
  if (path !== model) omissions.add(place, `${name} ${model}`, `a relative path: taken as ${path}`);
  return { paths: [path], projector: projector === undefined ? undefined : resolve(directory, projector) };
}

function keyReason(flag: string): string {
  if (flag.startsWith("--api")) return ownKey;
  return "its value is not carried: it looks like a secret; HF_TOKEN_PATH names a file to the operator";
}

function layersOf(text: string | undefined): NonNullable<SlotFields["model"]> {
  return text === "auto" ? { spill: "allow" } : layers(/^\d+$/.test(text ?? "") ? Number(text) : Infinity);
}

/** Whether a program is llama.cpp's server, by its name: `llama-server`, also with a version behind it. */
export function isLlamaServer(program: string): boolean {
  return (program.split(/[\\/]/).at(-1) ?? "").startsWith("llama-server");
}
