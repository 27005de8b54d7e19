import { openFileSource } from "./byte-source.ts";
import { readGgufHeader, type GgufHeader } from "./gguf-header.ts";
import { GgufError } from "./gguf-reader.ts";
import { fileTypes, poolings } from "./gguf-types.ts";

/** The facts of a GGUF header (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
export interface GgufFacts {
  readonly architecture: string | undefined;
  readonly name: string | undefined;
  readonly contextLength: number | undefined;
  /** Bytes per token of context in f16, as if every layer attended to all of it. */
  readonly contextBytesPerToken: number | undefined;
  readonly parameters: number;
  /** Such as Q4_K_M; without a file type of its own, the tensor type with the most weights. */
  readonly quantization: string | undefined;
  readonly pooling: string | undefined;
  readonly splitCount: number;
}

/** Reads the header only, in windows: a vocabulary of any size is skipped. Throws GgufError. */
export async function readGguf(path: string): Promise<GgufFacts> {
  await using source = await openFileSource(path);
  const header = await readGgufHeader(source);
  const missing = header.wholeBytes - source.sizeBytes;
  if (missing > 0) {
    throw new GgufError("TruncatedModel", `is incomplete: ${missing} of ${header.wholeBytes} bytes are missing`);
  }
  return factsOf(header);
}

function factsOf({ values, tensors }: GgufHeader): GgufFacts {
  const number = (key: string): number | undefined => {
    const value = values.get(key);
    return typeof value === "number" && Number.isFinite(value) ? value : undefined;
  };
  const text = (key: string): string | undefined => {
    const value = values.get(key);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const architecture = text("general.architecture");
  const own = (key: string): number | undefined =>
    architecture === undefined ? undefined : number(`${architecture}.${key}`);
  let parameters = 0;
  const weights = new Map<string, number>();
  for (const { elements, type } of tensors) {
    parameters += elements;
    if (type !== undefined) weights.set(type, (weights.get(type) ?? 0) + elements);
  }
  const pooling = own("pooling_type");
  const fileType = number("general.file_type");
  return {
    architecture,
    name: text("general.name"),
    contextLength: whole32(own("context_length")),
    contextBytesPerToken: contextBytes(own),
    parameters,
    quantization: (fileType === undefined ? undefined : fileTypes[fileType]) ?? mostWeights(weights),
    pooling: pooling === undefined ? undefined : poolings[pooling],
    splitCount: whole32(number("split.count")) ?? 1,
  };
}

/** Keys and values of two bytes each (llama.cpp's `llama_kv_cache`). Heads that differ by layer count as many as queries. */
function contextBytes(number: (key: string) => number | undefined): number | undefined {
  const layers = number("block_count");
  const heads = number("attention.head_count");
  const width = number("embedding_length");
  if (layers === undefined || heads === undefined || heads === 0 || width === undefined) return undefined;
  const keyValueHeads = number("attention.head_count_kv") ?? heads;
  const key = number("attention.key_length") ?? width / heads;
  const value = number("attention.value_length") ?? width / heads;
  return whole32(layers * keyValueHeads * (key + value) * 2);
}

function whole32(value: number | undefined): number | undefined {
  return value !== undefined && Number.isInteger(value) && value > 0 && value < 2 ** 32 ? value : undefined;
}

function mostWeights(weights: ReadonlyMap<string, number>): string | undefined {
  return [...weights].toSorted(([, a], [, b]) => b - a)[0]?.[0];
}
