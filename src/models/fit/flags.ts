import { cacheTypesOf } from "../../api/context-cost.ts";
import { serverDefaults, type FitSettings, type GpuShare } from "./settings.ts";

/** Settings of llama-server that decide its memory, with every way to say each (its README, "Usage"). */
const known = {
  context: { words: ["-c", "--ctx-size"], variable: "LLAMA_ARG_CTX_SIZE" },
  places: { words: ["-np", "--parallel"], variable: "LLAMA_ARG_N_PARALLEL" },
  batch: { words: ["-b", "--batch-size"], variable: "LLAMA_ARG_BATCH" },
  ubatch: { words: ["-ub", "--ubatch-size"], variable: "LLAMA_ARG_UBATCH" },
  gpuLayers: { words: ["-ngl", "--gpu-layers", "--n-gpu-layers"], variable: "LLAMA_ARG_N_GPU_LAYERS" },
  fit: { words: ["-fit", "--fit"], variable: "LLAMA_ARG_FIT" },
  flashAttention: { words: ["-fa", "--flash-attn"], variable: "LLAMA_ARG_FLASH_ATTN" },
} as const;

const switches = {
  unified: { words: ["-kvu", "--kv-unified"], variable: "LLAMA_ARG_KV_UNIFIED" },
  wholeWindow: { words: ["--swa-full"], variable: "LLAMA_ARG_SWA_FULL" },
  cacheOnHost: { words: ["-nkvo", "--no-kv-offload"], variable: "LLAMA_ARG_NO_KV_OFFLOAD" },
  embedding: { words: ["--embedding", "--embeddings"], variable: "LLAMA_ARG_EMBEDDINGS" },
  reranking: { words: ["--reranking", "--rerank"], variable: "LLAMA_ARG_RERANKING" },
} as const;

/** Flags that move parts of a model to other devices: only the engine's own allocator knows the result. */
const placing: ReadonlySet<string> = new Set(
  "-ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe -ts --tensor-split -sm --split-mode -mg --main-gpu -dev --device --no-repack -nr".split(
    " ",
  ),
);

/** Flags that load more than the model: their memory is not known before the start. */
const loading: ReadonlySet<string> = new Set(
  "-md --model-draft -hfd --lora --lora-scaled --control-vector --spec-type -hf --hf-repo".split(" "),
);

/** Whether an estimate from the shape alone is wrong for the launch line. */
export function isBeyondHeader(words: readonly string[]): boolean {
  return words.some((word) => placing.has(word) || loading.has(word));
}

/** Whether the result of the engine's allocator is wrong too. */
export function isBeyondPrint(words: readonly string[]): boolean {
  return words.some((word) => loading.has(word));
}

/** The settings from a launch line of llama-server. The last of several flags wins, and a flag wins over a variable. */
export function settingsOf(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  found: {
    readonly contextLength: number | undefined;
    readonly gpus: readonly GpuShare[];
    readonly projectorBytes: number;
  },
): FitSettings {
  const last = (names: readonly string[]): number => words.findLastIndex((word) => names.includes(word));
  const said = ({ words: names, variable }: (typeof known)[keyof typeof known]): string | undefined => {
    const at = last(names);
    return at < 0 ? env[variable] : words[at + 1];
  };
  const count = (key: keyof typeof known): number | undefined => {
    const value = Number(said(known[key]) ?? Number.NaN);
    return Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const isOn = (key: keyof typeof switches): boolean => {
    const { words: names, variable } = switches[key];
    return last(names) >= 0 || /^(?:1|true|on|enabled)$/.test(env[variable] ?? "");
  };
  const places = Math.max(1, count("places") ?? 1);
  const declared = count("context") ?? 0;
  const isUnified = isOn("unified");
  const isEmbedding = isOn("embedding") || isOn("reranking");
  const ubatch = count("ubatch") ?? serverDefaults.ubatch;
  const gpuLayers = count("gpuLayers");
  // Without a size the engine takes the model's longest context, for all sequences together if it may not adapt it.
  const isShared = isUnified || isOff(said(known.fit));
  const whole = (found.contextLength ?? 4096) * (isShared ? 1 : places);
  return {
    contextTokens: declared === 0 ? whole : declared,
    places,
    isUnified,
    ...cacheTypesOf(words, env),
    hasFlashAttention: !isOff(said(known.flashAttention)),
    isWindowFull: isOn("wholeWindow"),
    batch: isEmbedding ? ubatch : (count("batch") ?? serverDefaults.batch),
    ubatch,
    isEmbedding,
    ...(gpuLayers === undefined ? {} : { gpuLayers }),
    isCacheOffloaded: !isOn("cacheOnHost"),
    gpus: found.gpus,
    projectorBytes: found.projectorBytes,
  };
}

function isOff(text: string | undefined): boolean {
  return /^(?:off|0|false|disabled)$/.test(text ?? "");
}
