import { open } from "node:fs/promises";
import { tensorTypes } from "../../src/models/gguf-types.ts";
import { ggufHeader, padded, type GgufValue } from "./gguf.ts";

/** The tensor types of ggml that the shapes use, by their number in a file. */
const types = { F32: 0, F16: 1, Q4_0: 2, Q8_0: 8, Q4_K: 12, Q6_K: 14 } as const;
type Type = keyof typeof types;
export type Quantization = "F16" | "Q4_0" | "Q8_0" | "Q4_K_M";

/** A model that llama.cpp loads, without a weight that means something: it has every length of the real one, and holes. */
export interface Shape {
  readonly architecture: string;
  readonly layers: number;
  readonly width: number;
  readonly heads: number | readonly number[];
  readonly keyValueHeads: number | readonly number[];
  readonly headWidth: number;
  readonly feedForward: number | readonly number[];
  readonly vocabulary: number;
  readonly context: number;
  readonly isTied: boolean;
  readonly quantization: Quantization;
  readonly hasKeyNorm?: boolean;
  readonly hasPostNorm?: boolean;
  readonly window?: number;
  readonly experts?: { readonly count: number; readonly used: number; readonly width: number };
  /** Latent attention (DeepSeek): what is cached of a token instead of keys and values. */
  readonly latent?: {
    readonly rank: number;
    readonly queryRank: number;
    readonly rope: number;
    readonly keyWidth: number;
    readonly valueWidth: number;
  };
  /** Layers without attention: Mamba's second kind, or short convolutions (LFM2). */
  readonly recurrent?:
    | {
        readonly kind: "mamba2";
        readonly inner: number;
        readonly state: number;
        readonly groups: number;
        readonly convolution: number;
        readonly heads: number;
      }
    | { readonly kind: "shortconv"; readonly cache: number };
  /** Keys beside those that follow from the shape. */
  readonly keys?: Readonly<Record<string, GgufValue>>;
}

export interface ShapeTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: Type;
}

/** Every tensor that llama.cpp asks a file of this architecture for. */
export function tensorsOf(shape: Shape): readonly ShapeTensor[] {
  const { width, layers, vocabulary, quantization, experts, latent, recurrent } = shape;
  const isMixed = quantization === "Q4_K_M";
  const base: Type = isMixed ? "Q4_K" : quantization;
  const rich: Type = isMixed ? "Q6_K" : quantization;
  const found: ShapeTensor[] = [
    { name: "token_embd.weight", shape: [width, vocabulary], type: shape.isTied ? rich : base },
    {
      name: shape.architecture === "lfm2" ? "token_embd_norm.weight" : "output_norm.weight",
      shape: [width],
      type: "F32",
    },
  ];
  if (!shape.isTied) found.push({ name: "output.weight", shape: [width, vocabulary], type: rich });
  for (let layer = 0; layer < layers; layer++) {
    const isRich =
      layer < Math.floor(layers / 8) ||
      layer >= Math.floor((7 * layers) / 8) ||
      (layer - Math.floor(layers / 8)) % 3 === 2;
    const add = (part: string, dimensions: readonly number[], type: Type = base): void => {
      found.push({
        name: `blk.${layer}.${part}.weight`,
        shape: dimensions,
        type: dimensions.length === 1 ? "F32" : type,
      });
    };
    const heads = at(shape.heads, layer);
    const keyValueHeads = at(shape.keyValueHeads, layer);
    const feedForward = at(shape.feedForward, layer);
    const valueType = isMixed && isRich ? "Q6_K" : base;
    if (heads > 0 || recurrent !== undefined) add("attn_norm", [width]);
    if (latent !== undefined) {
      add("attn_q_a", [width, latent.queryRank]);
      add("attn_q_a_norm", [latent.queryRank]);
      add("attn_q_b", [latent.queryRank, heads * latent.keyWidth]);
      add("attn_kv_a_mqa", [width, latent.rank + latent.rope]);
      add("attn_kv_a_norm", [latent.rank]);
      add("attn_k_b", [latent.keyWidth - latent.rope, latent.rank, heads]);
      add("attn_v_b", [latent.rank, latent.valueWidth, heads]);
      add("attn_output", [heads * latent.valueWidth, width]);
    } else if (keyValueHeads > 0) {
      add("attn_q", [width, heads * shape.headWidth]);
      add("attn_k", [width, keyValueHeads * shape.headWidth]);
      add("attn_v", [width, keyValueHeads * shape.headWidth], valueType);
      add("attn_output", [heads * shape.headWidth, width]);
      if (shape.hasKeyNorm === true) {
        add("attn_q_norm", [shape.headWidth]);
        add("attn_k_norm", [shape.headWidth]);
      }
    } else if (recurrent?.kind === "mamba2") {
      const { inner, state, groups, convolution, heads: stateHeads } = recurrent;
      const mixed = inner + 2 * groups * state;
      add("ssm_in", [width, inner + mixed + stateHeads]);
      add("ssm_conv1d", [convolution, mixed], "F32");
      found.push({ name: `blk.${layer}.ssm_conv1d.bias`, shape: [mixed], type: "F32" });
      found.push({ name: `blk.${layer}.ssm_dt.bias`, shape: [stateHeads], type: "F32" });
      found.push({ name: `blk.${layer}.ssm_a`, shape: [1, stateHeads], type: "F32" });
      found.push({ name: `blk.${layer}.ssm_d`, shape: [1, stateHeads], type: "F32" });
      add("ssm_norm", [inner / groups, groups], "F32");
      add("ssm_out", [inner, width]);
    } else if (recurrent?.kind === "shortconv") {
      add("shortconv.conv", [recurrent.cache, width], "F32");
      add("shortconv.in_proj", [width, 3 * width]);
      add("shortconv.out_proj", [width, width]);
    }
    if (shape.hasPostNorm === true) {
      add("post_attention_norm", [width]);
      add("post_ffw_norm", [width]);
    }
    if (feedForward === 0 && experts === undefined) continue;
    add("ffn_norm", [width]);
    if (experts !== undefined) {
      add("ffn_gate_inp", [width, experts.count], "F32");
      add("ffn_gate_exps", [width, experts.width, experts.count]);
      add("ffn_up_exps", [width, experts.width, experts.count]);
      add("ffn_down_exps", [experts.width, width, experts.count], valueType);
    } else {
      add("ffn_gate", [width, feedForward]);
      add("ffn_up", [width, feedForward]);
      add("ffn_down", [feedForward, width], valueType);
    }
  }
  return found;
}

/** Bytes that a tensor takes in a file. */
export function bytesOf({ shape, type }: ShapeTensor): number {
  const layout = tensorTypes[types[type]];
  if (layout === undefined || (shape[0] ?? 0) % layout.blockSize !== 0) throw new Error(`${type} has no such row`);
  return (shape.reduce((one, other) => one * other, 1) / layout.blockSize) * layout.blockBytes;
}

/** A GGUF header, and how long the whole file is. `words`: how many of the vocabulary it spells out. */
export function headerOf(
  shape: Shape,
  options: { readonly words?: number; readonly split?: { readonly index: number; readonly count: number } } = {},
): {
  readonly header: Buffer;
  readonly sizeBytes: number;
  readonly ones: readonly { readonly offset: number; readonly count: number }[];
} {
  const { words = shape.vocabulary, split } = options;
  const all = tensorsOf(shape);
  const own =
    split === undefined
      ? all
      : all.filter((_, index) => Math.floor((index * split.count) / all.length) === split.index);
  const keys: Readonly<Record<string, GgufValue>> = {
    ...(split === undefined || split.index === 0 ? { ...vocabulary(words), ...keysOf(shape, words) } : {}),
    ...(split === undefined
      ? {}
      : { "split.no": split.index, "split.count": split.count, "split.tensors.count": all.length }),
  };
  let offset = 0;
  const ones: { offset: number; count: number }[] = [];
  const tensors = own.map((tensor) => {
    const placed = { ...tensor, type: types[tensor.type], offset };
    if (tensor.shape.length === 1) ones.push({ offset, count: tensor.shape[0] ?? 0 });
    offset += Math.ceil(bytesOf(tensor) / 32) * 32;
    return placed;
  });
  const header = padded(ggufHeader(keys, tensors));
  return {
    header,
    sizeBytes: header.length + offset,
    ones: ones.map((one) => ({ ...one, offset: one.offset + header.length })),
  };
}

/** Writes the file: norms are ones, every other weight is a hole, which takes no disk. */
export async function writeShape(
  path: string,
  shape: Shape,
  split?: { readonly index: number; readonly count: number },
): Promise<void> {
  const { header, sizeBytes, ones } = headerOf(shape, split === undefined ? {} : { split });
  await using file = await open(path, "w");
  await file.write(header, 0, header.length, 0);
  for (const { offset, count } of ones)
    await file.write(new Uint8Array(new Float32Array(count).fill(1).buffer), 0, count * 4, offset);
  await file.truncate(sizeBytes);
}

function at(value: number | readonly number[], layer: number): number {
  return typeof value === "number" ? value : (value[layer] ?? 0);
}

function keysOf(shape: Shape, words: number): Record<string, GgufValue> {
  const { architecture, experts, latent, recurrent } = shape;
  const files: Record<Quantization, number> = { F16: 1, Q4_0: 2, Q8_0: 7, Q4_K_M: 15 };
  const own = (keys: Readonly<Record<string, GgufValue | undefined>>): Record<string, GgufValue> => {
    const found: Record<string, GgufValue> = {};
    for (const [key, value] of Object.entries(keys)) if (value !== undefined) found[`${architecture}.${key}`] = value;
    return found;
  };
  return {
    "general.architecture": architecture,
    "general.file_type": files[shape.quantization],
    ...own({
      context_length: shape.context,
      embedding_length: shape.width,
      block_count: shape.layers,
      feed_forward_length: shape.feedForward,
      vocab_size: words,
      "attention.head_count": shape.heads,
      "attention.head_count_kv": latent === undefined ? shape.keyValueHeads : 1,
      "attention.layer_norm_rms_epsilon": { f32: 1e-5 },
      "rope.freq_base": { f32: 1e4 },
      "rope.dimension_count": latent?.rope ?? shape.headWidth,
      "attention.key_length": latent === undefined ? shape.headWidth : latent.rank + latent.rope,
      "attention.value_length": latent === undefined ? shape.headWidth : latent.rank,
      "attention.sliding_window": shape.window,
      expert_count: experts?.count,
      expert_used_count: experts?.used,
      expert_feed_forward_length: experts?.width,
      "attention.kv_lora_rank": latent?.rank,
      "attention.q_lora_rank": latent?.queryRank,
      "attention.key_length_mla": latent?.keyWidth,
      "attention.value_length_mla": latent?.valueWidth,
      ...(recurrent?.kind === "mamba2"
        ? {
            "ssm.conv_kernel": recurrent.convolution,
            "ssm.inner_size": recurrent.inner,
            "ssm.state_size": recurrent.state,
            "ssm.time_step_rank": recurrent.heads,
            "ssm.group_count": recurrent.groups,
          }
        : {}),
      ...(recurrent?.kind === "shortconv" ? { "shortconv.l_cache": recurrent.cache } : {}),
    }),
    ...shape.keys,
  };
}

/** A SentencePiece vocabulary of bytes and made-up words. */
function vocabulary(count: number): Record<string, GgufValue> {
  const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
  const tokens = ["<unk>", "<s>", "</s>", ...bytes];
  for (let index = tokens.length; index < count; index++) tokens.push(`▁w${index.toString(36)}`);
  const texts = tokens.slice(0, Math.max(count, 1));
  return {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": { texts },
    "tokenizer.ggml.scores": { f32s: texts.map((_, index) => (index < 259 ? 0 : -index)) },
    "tokenizer.ggml.token_type": texts.map((_, index) => (index === 0 ? 2 : index < 3 ? 3 : index < 259 ? 6 : 1)),
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.chat_template": "{% for message in messages %}{{ message['content'] }}{% endfor %}",
  };
}
