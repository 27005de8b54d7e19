import type { Shape } from "./shaped-model.ts";

const dense: Shape = {
  architecture: "llama",
  layers: 12,
  width: 1024,
  heads: 16,
  keyValueHeads: 4,
  headWidth: 64,
  feedForward: 2816,
  vocabulary: 32_000,
  context: 32_768,
  isTied: false,
  quantization: "Q8_0",
};

const gemma: Shape = {
  ...dense,
  architecture: "gemma3",
  layers: 14,
  heads: 8,
  keyValueHeads: 4,
  headWidth: 128,
  vocabulary: 65_536,
  isTied: true,
  hasKeyNorm: true,
  hasPostNorm: true,
  window: 512,
};

/** Small shapes of several architectures that a llama-server without a GPU loads in a second. */
export const shapes = {
  dense,
  tied: { ...dense, isTied: true, quantization: "F16" },
  repacked: { ...dense, quantization: "Q4_0" },
  mixed: { ...dense, quantization: "Q4_K_M", keyValueHeads: 8 },
  manyHeads: { ...dense, heads: 16, keyValueHeads: 16, layers: 8 },
  qwen3: { ...dense, architecture: "qwen3", headWidth: 128, keyValueHeads: 8, isTied: true, hasKeyNorm: true },
  mixtureOfExperts: {
    ...dense,
    architecture: "qwen3moe",
    hasKeyNorm: true,
    feedForward: 3072,
    experts: { count: 16, used: 4, width: 512 },
  },
  slidingWindow: gemma,
  largeVocabulary: { ...gemma, vocabulary: 262_144, layers: 7 },
  perLayerHeads: {
    ...dense,
    architecture: "deci",
    heads: [16, 16, 16, 0, 16, 16, 0, 0, 16, 16, 16, 16],
    keyValueHeads: [4, 8, 16, 0, 2, 4, 0, 0, 4, 8, 8, 2],
    feedForward: [2816, 2816, 1024, 2816, 4096, 2816, 1024, 2816, 2816, 2816, 2816, 2816],
  },
  latent: {
    ...dense,
    architecture: "deepseek2",
    latent: { rank: 256, queryRank: 384, rope: 64, keyWidth: 128, valueWidth: 128 },
    feedForward: 2816,
    keys: {
      "deepseek2.leading_dense_block_count": 12,
      "deepseek2.expert_feed_forward_length": 512,
      "deepseek2.expert_shared_count": 1,
    },
  },
  stateSpace: {
    ...dense,
    architecture: "mamba2",
    heads: 0,
    keyValueHeads: 0,
    feedForward: 0,
    recurrent: { kind: "mamba2", inner: 2048, state: 128, groups: 1, convolution: 4, heads: 32 },
  },
  hybrid: {
    ...dense,
    architecture: "lfm2",
    isTied: true,
    hasKeyNorm: true,
    keyValueHeads: [0, 0, 4, 0, 0, 4, 0, 0, 4, 0, 4, 0],
    recurrent: { kind: "shortconv", cache: 3 },
  },
  hybridStates: {
    ...dense,
    architecture: "granitehybrid",
    keyValueHeads: [0, 0, 4, 0, 0, 0, 0, 4, 0, 0, 0, 4],
    recurrent: { kind: "mamba2", inner: 2048, state: 128, groups: 1, convolution: 4, heads: 32 },
  },
} as const satisfies Readonly<Record<string, Shape>>;

const large = { ...dense, keyValueHeads: 8, headWidth: 128 } as const;
const qwen = { ...large, architecture: "qwen3", vocabulary: 151_936, hasKeyNorm: true } as const;

/** Shapes of real models, which were loaded on an H100 (test/fixtures/fit-h100.csv). */
export const realShapes: Readonly<Record<string, Omit<Shape, "quantization">>> = {
  "qwen3-0.6b": { ...qwen, layers: 28, width: 1024, heads: 16, feedForward: 3072, isTied: true },
  "qwen3-8b": { ...qwen, layers: 36, width: 4096, heads: 32, feedForward: 12_288 },
  "qwen3-14b": { ...qwen, layers: 40, width: 5120, heads: 40, feedForward: 17_408 },
  "qwen3-32b": { ...qwen, layers: 64, width: 5120, heads: 64, feedForward: 25_600 },
  "qwen3-30b-a3b": {
    ...qwen,
    architecture: "qwen3moe",
    layers: 48,
    width: 2048,
    heads: 32,
    keyValueHeads: 4,
    feedForward: 6144,
    experts: { count: 128, used: 8, width: 768 },
  },
  "llama3-8b": { ...large, layers: 32, width: 4096, heads: 32, feedForward: 14_336, vocabulary: 128_256 },
  "llama3-70b": { ...large, layers: 80, width: 8192, heads: 64, feedForward: 28_672, vocabulary: 128_256 },
  "llama2-7b": { ...large, layers: 32, width: 4096, heads: 32, keyValueHeads: 32, feedForward: 11_008 },
  "mistral-7b": { ...large, layers: 32, width: 4096, heads: 32, feedForward: 14_336, vocabulary: 32_768 },
  "tinyllama-1.1b": { ...dense, layers: 22, width: 2048, heads: 32, feedForward: 5632 },
  "gemma3-4b": {
    ...gemma,
    layers: 34,
    width: 2560,
    heads: 8,
    keyValueHeads: 4,
    headWidth: 256,
    feedForward: 10_240,
    vocabulary: 262_208,
    window: 1024,
  },
};
