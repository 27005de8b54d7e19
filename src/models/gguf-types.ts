/** The keys of a header that Berth uses, without their first part: `general`, `split`, or the architecture. */
const usedKeys = [
  "alignment",
  "architecture",
  "file_type",
  "name",
  "type",
  "count",
  "block_count",
  "context_length",
  "embedding_length",
  "expert_used_count",
  "nextn_predict_layers",
  "pooling_type",
  "token_shift_count",
  "vocab_size",
  "attention.head_count",
  "attention.head_count_kv",
  "attention.key_length",
  "attention.key_length_mla",
  "attention.kv_lora_rank",
  "attention.shared_kv_layers",
  "attention.sliding_window",
  "attention.sliding_window_pattern",
  "attention.value_length",
  "kda.head_dim",
  "shortconv.l_cache",
  "ssm.conv_kernel",
  "ssm.group_count",
  "ssm.inner_size",
  "ssm.state_size",
  "wkv.head_size",
  "vision.attention.head_count",
  "vision.embedding_length",
  "vision.feed_forward_length",
  "vision.image_size",
  "vision.patch_size",
] as const;

export type UsedKey = (typeof usedKeys)[number];

/** All other keys are skipped. */
export const keptKeys: ReadonlySet<string> = new Set(usedKeys);

/** `<architecture>.pooling_type`, the values of llama.cpp's `llama_pooling_type`. */
export const poolings = ["none", "mean", "cls", "last", "rank"] as const;

/** `general.type`: what the file is. Imatrix files, adapters and vocabularies are no models that answer. */
export const fileKinds = ["model", "mmproj", "adapter", "imatrix", "vocab"] as const;
export type FileKind = (typeof fileKinds)[number];

/** `general.file_type`, the values of llama.cpp's `llama_ftype`. */
export const fileTypes: Readonly<Record<number, string>> = {
  0: "F32",
  1: "F16",
  2: "Q4_0",
  3: "Q4_1",
  7: "Q8_0",
  8: "Q5_0",
  9: "Q5_1",
  10: "Q2_K",
  11: "Q3_K_S",
  12: "Q3_K_M",
  13: "Q3_K_L",
  14: "Q4_K_S",
  15: "Q4_K_M",
  16: "Q5_K_S",
  17: "Q5_K_M",
  18: "Q6_K",
  19: "IQ2_XXS",
  20: "IQ2_XS",
  21: "Q2_K_S",
  22: "IQ3_XS",
  23: "IQ3_XXS",
  24: "IQ1_S",
  25: "IQ4_NL",
  26: "IQ3_S",
  27: "IQ3_M",
  28: "IQ2_S",
  29: "IQ2_M",
  30: "IQ4_XS",
  31: "IQ1_M",
  32: "BF16",
  36: "TQ1_0",
  37: "TQ2_0",
  38: "MXFP4",
};

export interface TensorType {
  readonly name: string;
  readonly blockBytes: number;
  /** Weights in a block. */
  readonly blockSize: number;
}

/** The tensor types of ggml (`ggml-common.h`); a file with another type cannot be checked for truncation. */
export const tensorTypes: Readonly<Record<number, TensorType>> = {
  0: { name: "F32", blockBytes: 4, blockSize: 1 },
  1: { name: "F16", blockBytes: 2, blockSize: 1 },
  2: { name: "Q4_0", blockBytes: 18, blockSize: 32 },
  3: { name: "Q4_1", blockBytes: 20, blockSize: 32 },
  6: { name: "Q5_0", blockBytes: 22, blockSize: 32 },
  7: { name: "Q5_1", blockBytes: 24, blockSize: 32 },
  8: { name: "Q8_0", blockBytes: 34, blockSize: 32 },
  9: { name: "Q8_1", blockBytes: 36, blockSize: 32 },
  10: { name: "Q2_K", blockBytes: 84, blockSize: 256 },
  11: { name: "Q3_K", blockBytes: 110, blockSize: 256 },
  12: { name: "Q4_K", blockBytes: 144, blockSize: 256 },
  13: { name: "Q5_K", blockBytes: 176, blockSize: 256 },
  14: { name: "Q6_K", blockBytes: 210, blockSize: 256 },
  15: { name: "Q8_K", blockBytes: 292, blockSize: 256 },
  16: { name: "IQ2_XXS", blockBytes: 66, blockSize: 256 },
  17: { name: "IQ2_XS", blockBytes: 74, blockSize: 256 },
  18: { name: "IQ3_XXS", blockBytes: 98, blockSize: 256 },
  19: { name: "IQ1_S", blockBytes: 50, blockSize: 256 },
  20: { name: "IQ4_NL", blockBytes: 18, blockSize: 32 },
  21: { name: "IQ3_S", blockBytes: 110, blockSize: 256 },
  22: { name: "IQ2_S", blockBytes: 82, blockSize: 256 },
  23: { name: "IQ4_XS", blockBytes: 136, blockSize: 256 },
  24: { name: "I8", blockBytes: 1, blockSize: 1 },
  25: { name: "I16", blockBytes: 2, blockSize: 1 },
  26: { name: "I32", blockBytes: 4, blockSize: 1 },
  27: { name: "I64", blockBytes: 8, blockSize: 1 },
  28: { name: "F64", blockBytes: 8, blockSize: 1 },
  29: { name: "IQ1_M", blockBytes: 56, blockSize: 256 },
  30: { name: "BF16", blockBytes: 2, blockSize: 1 },
  34: { name: "TQ1_0", blockBytes: 54, blockSize: 256 },
  35: { name: "TQ2_0", blockBytes: 66, blockSize: 256 },
  39: { name: "MXFP4", blockBytes: 17, blockSize: 32 },
};

/** Bytes of a metadata value by its type; texts (8) and arrays (9) have no fixed size. */
export const scalarBytes: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
};
