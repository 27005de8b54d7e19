/** The settings of an engine that decide the memory of its model. */
export interface FitSettings {
  /** The context of all sequences together, as in `--ctx-size`. */
  readonly contextTokens: number;
  readonly places: number;
  /** Whether all sequences share one cache. */
  readonly isUnified: boolean;
  readonly keyType: CacheType;
  readonly valueType: CacheType;
  readonly hasFlashAttention: boolean;
  /** Whether layers with a window keep the whole context too. */
  readonly isWindowFull: boolean;
  readonly batch: number;
  readonly ubatch: number;
  /** Whether every token of a prompt has an output, not only the last token. */
  readonly isEmbedding: boolean;
  /** The number of layers on GPUs, the output layer included; absent: all. */
  readonly gpuLayers?: number;
  /** Whether the cache lies on the GPU of its layer. If false, the whole cache is in the machine's memory. */
  readonly isCacheOffloaded: boolean;
  /** The share of layers of each GPU, relative to the other GPUs; empty: no layer is on a GPU. */
  readonly gpus: readonly GpuShare[];
  /** The size of the projector's file. */
  readonly projectorBytes: number;
}

export interface GpuShare {
  /** The engine's name for the GPU: `CUDA0`. */
  readonly id: string;
  readonly share: number;
  readonly backend: "cuda" | "rocm" | "vulkan";
}

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

/** The defaults of llama-server, from version 0.3.36 of llama-cpp-python. */
export const serverDefaults = {
  isUnified: false,
  keyType: "f16",
  valueType: "f16",
  hasFlashAttention: true,
  isWindowFull: false,
  batch: 2048,
  ubatch: 512,
  isEmbedding: false,
  isCacheOffloaded: true,
  projectorBytes: 0,
} as const satisfies Partial<FitSettings>;
