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

/** The flags with one dash that presets may name without it (llama.cpp, tools/server/README.md). */
const shorts = new Set(
  "t tb C Cr Cb Crb c n b ub e kvo nkvo nr ctk ctv dt lm lzm dev ot cmoe ncmoe ncffn ngl sm ts mg fitt fitc m mu dr hf hfr hff hft v lv ctkd ctvd s l j jf bs lcs lcd ctxcp cms cram kvu sp np cb nocb mm mmu mmdev a to fa rea md ngld cd devd td hfd".split(
    " ",
  ),
);
/** Several names of one flag, its variable's too: a section's own value replaces that of `[*]` under each. */
export const sameKey: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    "ctx-size": "c LLAMA_ARG_CTX_SIZE",
    model: "m LLAMA_ARG_MODEL",
    mmproj: "mm LLAMA_ARG_MMPROJ",
    parallel: "np LLAMA_ARG_N_PARALLEL",
    "n-gpu-layers": "ngl gpu-layers LLAMA_ARG_N_GPU_LAYERS",
    threads: "t LLAMA_ARG_THREADS",
    "hf-repo": "hf hfr LLAMA_ARG_HF_REPO",
    "flash-attn": "fa LLAMA_ARG_FLASH_ATTN",
    "cache-type-k": "ctk LLAMA_ARG_CACHE_TYPE_K",
    "cache-type-v": "ctv LLAMA_ARG_CACHE_TYPE_V",
    "batch-size": "b LLAMA_ARG_BATCH",
    "ubatch-size": "ub LLAMA_ARG_UBATCH",
    embedding: "embeddings LLAMA_ARG_EMBEDDINGS",
    reranking: "rerank LLAMA_ARG_RERANKING",
    alias: "a LLAMA_ARG_ALIAS",
    jinja: "LLAMA_ARG_JINJA",
    temp: "temperature LLAMA_ARG_TEMPERATURE",
  }).flatMap(([name, others]) => others.split(" ").map((other) => [other, name] as const)),
);
/** Flags without a value that presets write as a switch; a switch that is off is written with `no-`. */
const switches = new Set(
  "jinja mmap mlock metrics embedding reranking kv-unified cont-batching context-shift verbose webui ui swa-full kv-offload cpu-moe warmup host-buffer slots props special offline perf escape repack mmproj-offload mmproj-auto op-offload cache-prompt reasoning-preserve".split(
    " ",
  ),
);
/** The switches that are off unless they are named. */
const offByDefault = new Set(
  "embedding reranking metrics mlock verbose swa-full cpu-moe special offline props".split(" "),
);
const off = /^(?:false|off|0|disabled)$/i;
export const on = /^(?:true|on|1|enabled)$/i;

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
const fetchesItself =
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

/** The words of llama-server's command line for one key. */
export function wordsFor(key: string, value: string): readonly string[] {
  const positive = key.replace(/^no-/, "");
  const isSwitch = switches.has(positive) || /^(?:true|false)$/i.test(value);
  if (!isSwitch || !(on.test(value) || off.test(value))) return [shorts.has(key) ? `-${key}` : `--${key}`, value];
  const isOn = on.test(value) === (positive === key);
  if (isOn) return [shorts.has(positive) ? `-${positive}` : `--${positive}`];
  return offByDefault.has(positive) ? [] : [`--no-${positive}`];
}

/** The same for a variable of llama-server that `sameKey` has; undefined for any other. */
export function wordsOfVariable(name: string, value: string): readonly string[] | undefined {
  const key = name.startsWith("LLAMA_ARG_") ? sameKey[name] : undefined;
  return key === undefined ? undefined : wordsFor(key, value);
}
