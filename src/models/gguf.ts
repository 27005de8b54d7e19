import type { ContextCost } from "../api/context-cost.ts";
import { openFileSource } from "./byte-source.ts";
import { contextCostIn } from "./fit/context-cost.ts";
import { readGgufHeader, type GgufHeader } from "./gguf-header.ts";
import { GgufError } from "./gguf-reader.ts";
import { fileTypes, poolings } from "./gguf-types.ts";

/** The facts of a GGUF header (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
export interface GgufFacts {
  readonly architecture: string | undefined;
  readonly name: string | undefined;
  readonly contextLength: number | undefined;
  /** Undefined where the layers are not known, and in one of several files of a model. */
  readonly contextCost: ContextCost | undefined;
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

/** The headers of a model's files, in order. Throws GgufError. */
export async function readHeaders(paths: readonly string[]): Promise<readonly GgufHeader[]> {
  const headers: GgufHeader[] = [];
  for (const path of paths) {
    await using source = await openFileSource(path);
    headers.push(await readGgufHeader(source));
  }
  return headers;
}

function factsOf(header: GgufHeader): GgufFacts {
  const { values, tensors } = header;
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
  const splitCount = whole32(number("split.count")) ?? 1;
  const pooling = own("pooling_type");
  const fileType = number("general.file_type");
  return {
    architecture,
    name: text("general.name"),
    contextLength: whole32(own("context_length")),
    contextCost: splitCount > 1 ? undefined : contextCostIn([header]),
    parameters,
    quantization: (fileType === undefined ? undefined : fileTypes[fileType]) ?? mostWeights(weights),
    pooling: pooling === undefined ? undefined : poolings[pooling],
    splitCount,
  };
}

function whole32(value: number | undefined): number | undefined {
  return value !== undefined && Number.isInteger(value) && value > 0 && value < 2 ** 32 ? value : undefined;
}

function mostWeights(weights: ReadonlyMap<string, number>): string | undefined {
  return [...weights].toSorted(([, a], [, b]) => b - a)[0]?.[0];
}
