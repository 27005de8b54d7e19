import { open } from "node:fs/promises";
import { ggufHeader, padded, type GgufValue } from "./gguf.ts";

/** The lengths of a vision encoder as CLIP's, and of the two layers that project its answer. */
export interface Projector {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly feedForward: number;
  readonly imageSize: number;
  readonly patchSize: number;
  /** The width of the language model. */
  readonly projected: number;
}

/** A small one, for the model of shape `dense`. */
export const projector: Projector = {
  layers: 6,
  width: 512,
  heads: 8,
  feedForward: 2048,
  imageSize: 112,
  patchSize: 14,
  projected: 1024,
};

const types = { F32: { id: 0, bytes: 4 }, F16: { id: 1, bytes: 2 } } as const;

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly type: keyof typeof types;
}

/** Writes a projector of LLaVA's kind (llama.cpp, tools/mtmd/clip.cpp). Every weight is a hole: it projects to nothing. */
export async function writeProjector(path: string, shape: Projector): Promise<void> {
  let offset = 0;
  const tensors = tensorsOf(shape).map(({ name, shape: lengths, type }) => {
    const { id, bytes } = types[type];
    const placed = { name, shape: lengths, type: id, offset };
    offset += Math.ceil((lengths.reduce((one, other) => one * other, 1) * bytes) / 32) * 32;
    return placed;
  });
  const header = padded(ggufHeader(keysOf(shape), tensors));
  await using file = await open(path, "w");
  await file.write(header, 0, header.length, 0);
  await file.truncate(header.length + offset);
}

function keysOf(shape: Projector): Record<string, GgufValue> {
  return {
    "general.architecture": "clip",
    "general.file_type": 1,
    "clip.has_text_encoder": false,
    "clip.has_vision_encoder": true,
    "clip.has_llava_projector": true,
    "clip.projector_type": "mlp",
    "clip.use_gelu": true,
    "clip.vision.image_size": shape.imageSize,
    "clip.vision.patch_size": shape.patchSize,
    "clip.vision.embedding_length": shape.width,
    "clip.vision.feed_forward_length": shape.feedForward,
    "clip.vision.projection_dim": shape.projected,
    "clip.vision.block_count": shape.layers,
    "clip.vision.attention.head_count": shape.heads,
    "clip.vision.attention.layer_norm_epsilon": { f32: 1e-5 },
    "clip.vision.image_mean": { f32s: [0.5, 0.5, 0.5] },
    "clip.vision.image_std": { f32s: [0.5, 0.5, 0.5] },
  };
}

function tensorsOf({ layers, width, feedForward, imageSize, patchSize, projected }: Projector): readonly Tensor[] {
  const weight = (name: string, from: number, to: number): Tensor[] => [
    { name: `${name}.weight`, shape: [from, to], type: "F16" },
    { name: `${name}.bias`, shape: [to], type: "F32" },
  ];
  const norm = (name: string): Tensor[] =>
    ["weight", "bias"].map((part) => ({ name: `${name}.${part}`, shape: [width], type: "F32" }));
  const layer = (at: string): Tensor[] => [
    ...["attn_q", "attn_k", "attn_v", "attn_out"].flatMap((name) => weight(`${at}.${name}`, width, width)),
    ...norm(`${at}.ln1`),
    ...norm(`${at}.ln2`),
    ...weight(`${at}.ffn_up`, width, feedForward),
    ...weight(`${at}.ffn_down`, feedForward, width),
  ];
  const patches = (imageSize / patchSize) ** 2;
  return [
    { name: "v.class_embd", shape: [width], type: "F32" },
    { name: "v.patch_embd.weight", shape: [patchSize, patchSize, 3, width], type: "F16" },
    { name: "v.position_embd.weight", shape: [width, patches + 1], type: "F32" },
    ...norm("v.pre_ln"),
    ...Array.from({ length: layers }, (_, index) => layer(`v.blk.${index}`)).flat(),
    ...weight("mm.0", width, projected),
    ...weight("mm.2", projected, projected),
  ];
}
