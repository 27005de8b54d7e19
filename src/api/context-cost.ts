import { z } from "zod";

export const cacheTypes = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"] as const;
export type CacheType = (typeof cacheTypes)[number];

/** The bytes of one value: a block of 32 values has a scale, and in some types an offset. */
export const cacheBytes: Readonly<Record<CacheType, number>> = {
  f32: 4,
  f16: 2,
  bf16: 2,
  q8_0: 34 / 32,
  q4_0: 18 / 32,
  q4_1: 20 / 32,
  iq4_nl: 18 / 32,
  q5_0: 22 / 32,
  q5_1: 24 / 32,
};

const width = z.int().min(0);
const widths = { keyWidth: width, valueWidth: width };

/** The sizes of a model's context, in values, over all of its layers. */
export const contextCostSchema = z.strictObject({
  /** For each token, in the layers that keep the whole context. */
  ...widths,
  /** For each token in the layers with a sliding window, which keep no more than the window and a batch. */
  window: z.strictObject({ tokens: z.int().min(1), ...widths }).optional(),
  /** For each sequence, whatever its length: the states of recurrent layers. */
  stateWidth: width,
});
export type ContextCost = z.output<typeof contextCostSchema>;

/** The settings of an engine that decide the memory of a context. */
export interface ContextUse {
  /** The context of all sequences together, as in `--ctx-size`. */
  readonly contextTokens: number;
  readonly places: number;
  /** Whether all sequences share one cache. */
  readonly isUnified: boolean;
  readonly keyType: CacheType;
  readonly valueType: CacheType;
  /** Whether layers with a window keep the whole context too. */
  readonly isWindowFull: boolean;
  readonly batch: number;
  readonly ubatch: number;
}

/** The defaults of llama-server, from version 0.3.36 of llama-cpp-python. */
export const usualContext = {
  isUnified: false,
  keyType: "f16",
  valueType: "f16",
  isWindowFull: false,
  batch: 2048,
  ubatch: 512,
} as const satisfies Partial<ContextUse>;

const stateBytes = 4;

/** The memory of a context. Exact for a llama.cpp with flash attention. */
export function contextBytes(cost: ContextCost, use: ContextUse): number {
  const { cells, streams } = cellsOf(use);
  const windowed = cost.window === undefined ? 0 : windowCells(cost.window.tokens, use);
  return bytesOf(cost, use, { whole: cells * streams, windowed: windowed * streams, sequences: use.places });
}

/** The size of a file with the context of one sequence of that length. */
export function savedContextBytes(
  cost: ContextCost,
  tokens: number,
  use: Pick<ContextUse, "keyType" | "valueType">,
): number {
  const windowed = Math.min(tokens, (cost.window?.tokens ?? 0) + usualContext.ubatch);
  return bytesOf(cost, use, { whole: tokens, windowed, sequences: 1 });
}

function bytesOf(
  { keyWidth, valueWidth, window, stateWidth }: ContextCost,
  { keyType, valueType }: Pick<ContextUse, "keyType" | "valueType">,
  cells: { readonly whole: number; readonly windowed: number; readonly sequences: number },
): number {
  const each = (keys: number, values: number): number => keys * cacheBytes[keyType] + values * cacheBytes[valueType];
  return (
    cells.whole * each(keyWidth, valueWidth) +
    cells.windowed * each(window?.keyWidth ?? 0, window?.valueWidth ?? 0) +
    cells.sequences * stateWidth * stateBytes
  );
}

/** The tokens in one cache, rounded up as llama.cpp does, and the number of such caches. */
export function cellsOf({
  contextTokens,
  places,
  isUnified,
}: Pick<ContextUse, "contextTokens" | "places" | "isUnified">): { readonly cells: number; readonly streams: number } {
  const all = padded(contextTokens);
  return isUnified ? { cells: all, streams: 1 } : { cells: padded(Math.floor(all / places)), streams: places };
}

/** Layers with a window cache the tokens of the window and of the present batch. */
export function windowCells(windowTokens: number | undefined, use: ContextUse): number {
  const { cells } = cellsOf(use);
  if (windowTokens === undefined || use.isWindowFull) return cells;
  const covered = windowTokens * (use.isUnified ? use.places : 1) + ubatchOf(use);
  return padded(Math.min(cells, covered));
}

/** A batch is no longer than the context. */
export function ubatchOf({ contextTokens, batch, ubatch }: ContextUse): number {
  return Math.min(contextTokens, batch, ubatch);
}

const flags = { keyType: ["-ctk", "--cache-type-k"], valueType: ["-ctv", "--cache-type-v"] } as const;
const variables = { keyType: "LLAMA_ARG_CACHE_TYPE_K", valueType: "LLAMA_ARG_CACHE_TYPE_V" } as const;

/** The types of the cache that a launch line of llama-server sets. The last of several flags wins, and a flag over a variable. */
export function cacheTypesOf(
  words: readonly string[],
  env: Readonly<Record<string, unknown>>,
): Pick<ContextUse, "keyType" | "valueType"> {
  const typeOf = (key: keyof typeof flags): CacheType => {
    const at = words.findLastIndex((word) => flags[key].some((flag) => flag === word));
    const said = at < 0 ? env[variables[key]] : words[at + 1];
    return cacheTypes.find((type) => type === said) ?? usualContext[key];
  };
  return { keyType: typeOf("keyType"), valueType: typeOf("valueType") };
}

function padded(tokens: number): number {
  return Math.ceil(tokens / 256) * 256;
}
