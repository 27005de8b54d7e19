import type { GgufHeader, GgufTensor } from "../gguf-header.ts";
import { Keys } from "./keys.ts";
import { layerOf, type LayerShape } from "./layers.ts";
import { windowsOf } from "./windows.ts";

/** The facts that decide a model's memory on each device, without its vocabulary: kilobytes for any model. */
export interface ModelShape {
  readonly architecture: string;
  readonly layers: readonly LayerShape[];
  /** Weights that are looked up by token and never multiplied: llama.cpp keeps these in the machine's memory. */
  readonly lookupBytes: number;
  /** The output layer and its norm. With tied embeddings, an output layer on a GPU is a second copy of them. */
  readonly outputBytes: number;
  readonly isTied: boolean;
  /** Sizes in floats. */
  readonly width: number;
  readonly vocabulary: number;
  /** The outputs for a token, in floats: the vocabulary, or none without an output layer. */
  readonly outputs: number;
  /** The longest context that the model was trained for. */
  readonly contextLength: number | undefined;
  /** A sliding window, in tokens. */
  readonly window: number | undefined;
  /** Whether the model has a cache of earlier tokens. Models that only encode have none. */
  readonly hasCache: boolean;
  /** Whether there are weights of 16 bits, which CUDA multiplies with cuBLAS. */
  readonly hasFullWeights: boolean;
  /** The layout of the weights in their files, as llama.cpp treats them without a GPU. */
  readonly files: {
    /** The mapped length of the files: in each, from the first to the last weight that is not rearranged. */
    readonly mappedBytes: number;
    /** The bytes of weights of which the engine makes a rearranged copy for the processor. */
    readonly repackedBytes: number;
  };
}

/** The memory of a model with this shape cannot be computed. */
export class UnknownShape extends Error {
  override readonly name = "UnknownShape";
}

/** Types that llama.cpp rearranges for x86 processors with AVX2 (ggml/src/ggml-cpu/repack.cpp). */
const repacked: ReadonlySet<string> = new Set(["Q4_0", "Q4_K", "IQ4_NL", "MXFP4"]);
const full: ReadonlySet<string> = new Set(["F16", "BF16"]);
const encoders = /bert|^gemma-embedding$|^t5encoder$|^(?:dream|llada|llada-moe|rnd1)$/;
/** llama.cpp loads no more (LLAMA_MAX_LAYERS). Of a damaged or hostile header, each would take memory. */
const mostLayers = 512;
/** Names of tensors that are looked up by row (llama-arch.cpp, LLM_TENSOR_LAYER_INPUT). */
const lookups = /^(?:token_embd|token_types|position_embd|per_layer_token_embd)\.weight$/;

/** The shape of a model by the headers of its files, in order. Throws UnknownShape. */
export function shapeOf(headers: readonly GgufHeader[]): ModelShape {
  const [first] = headers;
  const architecture = first?.values.get("general.architecture");
  if (first === undefined || typeof architecture !== "string") {
    throw new UnknownShape("the file names no architecture");
  }
  const keys = new Keys(first.values, architecture);
  const count = keys.number("block_count");
  const width = keys.number("embedding_length");
  if (count === undefined || width === undefined) throw new UnknownShape(`the file lacks the keys of ${architecture}`);
  if (count > mostLayers) throw new UnknownShape(`the file has ${count} layers; ${mostLayers} are the most`);
  const tensors = headers.flatMap((header) => header.tensors);
  const unknown = tensors.find(({ bytes }) => bytes === undefined);
  if (unknown !== undefined) throw new UnknownShape(`the type of ${unknown.name} is not known to this version`);
  const layers = new Map<number, GgufTensor[]>();
  const others: GgufTensor[] = [];
  for (const tensor of tensors) {
    const index = Number(/^blk\.(\d+)\./.exec(tensor.name)?.[1] ?? -1);
    const own = index < 0 ? others : layers.get(index);
    if (own === undefined) layers.set(index, [tensor]);
    else own.push(tensor);
  }
  const embedding = others.find(({ name }) => name === "token_embd.weight");
  const output = others.find(({ name }) => name === "output.weight");
  const rest = others.filter((tensor) => tensor !== output && !lookups.test(tensor.name));
  const isTied = output === undefined && !encoders.test(architecture);
  const vocabulary = embedding?.dimensions[1] ?? keys.number("vocab_size") ?? 0;
  const windows = windowsOf(keys, architecture, count);
  const shared = keys.number("attention.shared_kv_layers") ?? 0;
  // Layers that predict further tokens are in the file, but do not run by default.
  const guessing = keys.number("nextn_predict_layers") ?? 0;
  return {
    architecture,
    layers: Array.from({ length: count - guessing }, (_, index) =>
      layerOf(layers.get(index) ?? [], keys, {
        index,
        width,
        isWindowed: windows?.layers[index] === true,
        isShared: index >= count - shared,
      }),
    ),
    lookupBytes: sum(others.filter(({ name }) => lookups.test(name))),
    outputBytes: sum(rest) + ((output ?? (isTied ? embedding : undefined))?.bytes ?? 0),
    isTied,
    width,
    vocabulary,
    outputs: output === undefined && !isTied ? 0 : vocabulary,
    contextLength: keys.number("context_length"),
    window: windows?.tokens,
    hasCache: !encoders.test(architecture),
    hasFullWeights: tensors.some(({ type = "", dimensions }) => full.has(type) && dimensions.length === 2),
    files: filesOf(headers),
  };
}

function filesOf(headers: readonly GgufHeader[]): ModelShape["files"] {
  let mappedBytes = 0;
  let repackedBytes = 0;
  for (const { tensors } of headers) {
    const isRepacked = ({ name, type = "", dimensions }: GgufTensor): boolean =>
      repacked.has(type) && !lookups.test(name) && (dimensions[1] ?? 0) % 8 === 0 && dimensions.length > 1;
    const kept = tensors.filter((tensor) => !isRepacked(tensor));
    repackedBytes += sum(tensors) - sum(kept);
    let start = Infinity;
    let end = 0;
    for (const { offset, bytes = 0 } of kept) {
      start = Math.min(start, offset);
      end = Math.max(end, offset + bytes);
    }
    if (end > 0) mappedBytes += end - start;
  }
  return { mappedBytes, repackedBytes };
}

function sum(tensors: readonly GgufTensor[]): number {
  return tensors.reduce((bytes, tensor) => bytes + (tensor.bytes ?? 0), 0);
}
