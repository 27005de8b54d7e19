import { usualContext, type ContextUse } from "../../api/context-cost.ts";

/** The settings of an engine that decide the memory of its model. */
export interface FitSettings extends ContextUse {
  readonly hasFlashAttention: boolean;
  /** Whether every token of a prompt has an output, not only the last token. */
  readonly isEmbedding: boolean;
  /** The number of layers on GPUs, the output layer included; absent: all. */
  readonly gpuLayers?: number;
  /** Whether the cache lies on the GPU of its layer. If false, the whole cache is in the machine's memory. */
  readonly isCacheOffloaded: boolean;
  /** The share of layers of each GPU, relative to the other GPUs; empty: no layer is on a GPU. */
  readonly gpus: readonly GpuShare[];
  /** The weights of the projector, and its work buffer. */
  readonly projectorBytes: number;
}

export interface GpuShare {
  /** The engine's name for the GPU: `CUDA0`. */
  readonly id: string;
  readonly share: number;
  readonly backend: "cuda" | "rocm" | "vulkan";
}

/** The defaults of llama-server. */
export const serverDefaults = {
  ...usualContext,
  hasFlashAttention: true,
  isEmbedding: false,
  isCacheOffloaded: true,
  projectorBytes: 0,
} as const satisfies Partial<FitSettings>;
