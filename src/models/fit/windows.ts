import type { Keys } from "./keys.ts";

/** The layers of a model whose attention is limited to a sliding window. */
export interface Windows {
  readonly tokens: number;
  readonly layers: readonly boolean[];
}

interface Pattern {
  /** The length of a group in which one layer has no window. 0: all layers have windows; 1: no layer has. */
  readonly every: number;
  /** Whether the first layer of a group has no window; if false, the last layer has none. */
  readonly isFirst?: boolean;
  /** The window if the file names none. */
  readonly tokens?: number;
  /** Only models with this number of layers have windows. */
  readonly layers?: number;
  /** Whether the file's value says only that there are windows. */
  readonly isFixed?: boolean;
}

/**
 * Architectures with windows, as llama.cpp treats files without a pattern of their own (src/models/*.cpp,
 * `load_swa_pattern`). As in llama.cpp, an architecture that is missing here has no windows, also if its file
 * names a window without a pattern.
 */
const patterns: Readonly<Record<string, Pattern>> = {
  afmoe: { every: 4 },
  cohere2: { every: 4 },
  cohere2moe: { every: 4, isFirst: true },
  "exaone-moe": { every: 4, tokens: 128 },
  exaone4: { every: 4, tokens: 4096, layers: 64 },
  gemma2: { every: 2, tokens: 4096 },
  gemma3: { every: 6 },
  gemma3n: { every: 5 },
  "gpt-oss": { every: 2 },
  laguna: { every: 4, isFirst: true },
  llama4: { every: 4, tokens: 8192, isFixed: true },
  mellum: { every: 4 },
  olmo2: { every: 4 },
  plamo3: { every: 8 },
  smallthinker: { every: 4, isFirst: true, tokens: 4096 },
};

export function windowsOf(keys: Keys, architecture: string, layers: number): Windows | undefined {
  const known = patterns[architecture];
  const said = keys.number("attention.sliding_window");
  if (said === 0 || (known?.layers !== undefined && known.layers !== layers)) return undefined;
  const tokens = known?.isFixed === true ? known.tokens : (said ?? known?.tokens);
  if (tokens === undefined) return undefined;
  const own = keys.value("attention.sliding_window_pattern");
  if (Array.isArray(own)) {
    return { tokens, layers: Array.from({ length: layers }, (_, index) => Boolean(own[index])) };
  }
  const every = typeof own === "number" ? own : known?.every;
  if (every === undefined) return undefined;
  const isFirst = known?.isFirst === true;
  return {
    tokens,
    layers: Array.from(
      { length: layers },
      (_, index) => every === 0 || (isFirst ? index % every !== 0 : index % every < every - 1),
    ),
  };
}
