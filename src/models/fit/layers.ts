import type { GgufTensor } from "../gguf-header.ts";
import type { Keys } from "./keys.ts";

/** The sizes of one layer that decide its memory. Widths are in floats. */
export interface LayerShape {
  readonly bytes: number;
  /** The part of those bytes that belongs to experts, which only some tokens use. */
  readonly expertBytes: number;
  /** The largest single weight: a GPU gets a copy of it, to work on, while the layer lies in the machine's memory. */
  readonly largestBytes: number;
  /** The cache for each token; absent if the layer keeps none. */
  readonly cache?: { readonly keyWidth: number; readonly valueWidth: number; readonly isWindowed: boolean };
  /** Whether the layer reads the cache of an earlier layer and has no cache of its own. */
  readonly isShared: boolean;
  /** The state for each sequence, which does not depend on the length of the sequence. */
  readonly stateWidth: number;
  readonly heads: number;
  /** The largest work buffer of the layer, for each token of a batch. */
  readonly widest: number;
  /** The largest work buffer of its attention alone. */
  readonly attention: number;
}

interface Place {
  readonly index: number;
  readonly width: number;
  readonly isWindowed: boolean;
  readonly isShared: boolean;
}

export function layerOf(tensors: readonly GgufTensor[], keys: Keys, place: Place): LayerShape {
  const parts = new Map(tensors.map((tensor) => [tensor.name.replace(/^blk\.\d+\./, ""), tensor]));
  const sizes = tensors.map(({ bytes = 0 }) => bytes);
  const cached = cachedOf(parts, keys, place);
  const heads = keys.at("attention.head_count", place.index) ?? 0;
  const attention = attentionOf(parts, keys, place, heads, cached);
  return {
    bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
    expertBytes: tensors.reduce((sum, { name, bytes = 0 }) => sum + (/_exps\./.test(name) ? bytes : 0), 0),
    // A call cannot take a million arguments.
    largestBytes: sizes.reduce((most, bytes) => Math.max(most, bytes), 0),
    ...(cached === undefined || place.isShared ? {} : { cache: { ...cached, isWindowed: place.isWindowed } }),
    isShared: place.isShared,
    stateWidth: stateOf(parts, keys, place),
    heads,
    attention,
    widest: Math.max(attention, forwardOf(parts, keys, place, heads), recurrentOf(parts, keys, place)),
  };
}

type Parts = ReadonlyMap<string, GgufTensor>;
type Cached = Pick<NonNullable<LayerShape["cache"]>, "keyWidth" | "valueWidth">;

/** The number of values that a weight computes for one token. */
function rows(parts: Parts, name: string): number | undefined {
  return parts.get(`${name}.weight`)?.dimensions[1];
}

function isLatent(parts: Parts, keys: Keys): boolean {
  return parts.has("attn_kv_a_mqa.weight") && keys.number("attention.key_length_mla") !== undefined;
}

/** Computes the cache from the weights: layers may differ, and a layer may have no cache. */
function cachedOf(parts: Parts, keys: Keys, { index, width }: Place): Cached | undefined {
  // The part that all heads share is cached once, and the values of the heads are computed from it.
  if (isLatent(parts, keys)) return { keyWidth: rows(parts, "attn_kv_a_mqa") ?? 0, valueWidth: 0 };
  const key = rows(parts, "attn_k");
  if (key !== undefined && !parts.has("attn_kv_b.weight")) {
    return { keyWidth: key, valueWidth: rows(parts, "attn_v") ?? key };
  }
  if (!["attn_qkv", "attn_kv_b", "attn_q"].some((name) => parts.has(`${name}.weight`))) return undefined;
  const heads = keys.at("attention.head_count", index) ?? 0;
  const cached = keys.at("attention.head_count_kv", index) ?? heads;
  const each = heads === 0 ? 0 : width / heads;
  return {
    keyWidth: cached * (keys.number("attention.key_length") ?? each),
    valueWidth: cached * (keys.number("attention.value_length") ?? each),
  };
}

/** Convolutions and states, in floats (llama_hparams::n_embd_r, n_embd_s). */
function stateOf(parts: Parts, keys: Keys, { width }: Place): number {
  const has = (prefix: string): boolean => [...parts.keys()].some((name) => name.startsWith(prefix));
  if (has("time_mix_")) {
    return (keys.number("token_shift_count") ?? 2) * width + width * (keys.number("wkv.head_size") ?? 64);
  }
  if (has("shortconv.")) return width * ((keys.number("shortconv.l_cache") ?? 1) - 1);
  if (!has("ssm_")) return 0;
  const { inner, groups, state } = mamba(keys);
  const convolution = keys.number("ssm.conv_kernel") ?? 0;
  const delta = keys.number("kda.head_dim");
  if (delta !== undefined) {
    const all = (keys.number("attention.head_count") ?? 0) * delta;
    return 3 * Math.max(0, convolution - 1) * all + delta * all;
  }
  return Math.max(0, convolution - 1) * (inner + 2 * groups * state) + state * inner;
}

function mamba(keys: Keys): { readonly inner: number; readonly groups: number; readonly state: number } {
  return {
    inner: keys.number("ssm.inner_size") ?? 0,
    groups: keys.number("ssm.group_count") ?? 0,
    state: keys.number("ssm.state_size") ?? 0,
  };
}

/*
 * The terms below were derived from llama.cpp's own figures (0.3.36 of llama-cpp-python): of an H100 in
 * test/fixtures/fit-h100.csv, and of the processor by `make test-llama-server`. The residual and the normed input are
 * two widths; beside them stand what a step reads and what it writes.
 */

function queriesOf(parts: Parts, keys: Keys, { width, index }: Place, heads: number): number {
  if (heads === 0) return 0;
  const all = heads * (keys.at("attention.key_length", index) ?? width / heads);
  return Math.max(all, rows(parts, "attn_q") ?? 0);
}

function attentionOf(parts: Parts, keys: Keys, place: Place, heads: number, cached: Cached | undefined): number {
  const { width } = place;
  if (cached === undefined) return 0;
  if (isLatent(parts, keys)) {
    const rank = keys.number("attention.kv_lora_rank") ?? 0;
    const rope = cached.keyWidth - rank;
    const each = 2 * rank + (keys.number("attention.key_length_mla") ?? 0) + 2 * rope;
    return heads * each + 2 * width + 3 * cached.keyWidth;
  }
  const queries = queriesOf(parts, keys, place, heads);
  const copies = parts.has("attn_q_norm.weight") ? 3 : 2;
  return copies * queries + 2 * width + cached.keyWidth + cached.valueWidth;
}

function forwardOf(parts: Parts, keys: Keys, place: Place, heads: number): number {
  const { width } = place;
  const beside = 2 * width + (isLatent(parts, keys) ? 0 : queriesOf(parts, keys, place, heads));
  const inner = parts.get("ffn_down.weight")?.dimensions[0] ?? 0;
  const isGated = parts.has("ffn_gate.weight") || (rows(parts, "ffn_up") ?? 0) === 2 * inner;
  const dense = inner === 0 ? 0 : (isGated ? 3 : 2) * inner + beside;
  const expert = parts.get("ffn_down_exps.weight")?.dimensions[0];
  if (expert === undefined) return dense;
  const used = keys.at("expert_used_count", place.index) ?? 1;
  // The experts' answers fit where their inputs were, unless these were narrow.
  const answers = width > 2 * expert ? used * width : 0;
  return Math.max(dense, 3 * used * expert + answers + beside);
}

function recurrentOf(parts: Parts, keys: Keys, { width }: Place): number {
  const names = [...parts.keys()];
  if (names.some((name) => name.startsWith("time_mix_"))) return 12 * width;
  if (!names.some((name) => name.startsWith("ssm_"))) return 0;
  const { inner, groups, state } = mamba(keys);
  return 6 * inner + 2 * width + 4 * groups * state;
}
