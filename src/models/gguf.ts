import type { ContextCost } from "../api/context-cost.ts";
import { contextCostIn } from "./fit/context-cost.ts";
import type { GgufHeader } from "./gguf-header.ts";
import { GgufError } from "./gguf-reader.ts";
import { fileKinds, fileTypes, poolings, type FileKind, type UsedKey } from "./gguf-types.ts";
import { HeaderFiles } from "./header-files.ts";

/** The facts of a GGUF header (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
export interface GgufFacts {
  readonly architecture: string | undefined;
  /** Undefined where the header does not tell. */
  readonly kind: FileKind | undefined;
  readonly name: string | undefined;
  readonly contextLength: number | undefined;
  /** Undefined where the layers are not known, and in one of several files of a model. */
  readonly contextCost: ContextCost | undefined;
  readonly parameters: number;
  /** Such as Q4_K_M; without a file type of its own, the tensor type with the most weights. */
  readonly quantization: string | undefined;
  readonly pooling: string | undefined;
  /** Undefined where the header has no tokenizer. */
  readonly hasChatTemplate: boolean | undefined;
  readonly splitCount: number;
}

/** Reads the header only: a vocabulary of any size is skipped. Rejects with GgufError, and where the file cannot be read. */
export async function readGguf(path: string, files = new HeaderFiles()): Promise<GgufFacts> {
  return await files.read([path], ([header]) => {
    if (header === undefined) throw new Error(`the header of ${path} was not read`);
    const missing = header.wholeBytes - header.sizeBytes;
    if (missing <= 0) return factsOf(header);
    throw new GgufError("TruncatedModel", `is incomplete: ${missing} of ${header.wholeBytes} bytes are missing`);
  });
}

function factsOf(header: GgufHeader): GgufFacts {
  const { values, tensors } = header;
  const number = (key: `${string}.${UsedKey}`): number | undefined => {
    const value = values.get(key);
    return typeof value === "number" && Number.isFinite(value) ? value : undefined;
  };
  const text = (key: `general.${UsedKey}`): string | undefined => {
    const value = values.get(key);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  const architecture = text("general.architecture");
  const own = (key: UsedKey): number | undefined =>
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
  const type = text("general.type");
  const said = fileKinds.find((kind) => kind === type);
  return {
    architecture,
    kind: architecture === "clip" ? "mmproj" : said,
    name: text("general.name"),
    contextLength: whole32(own("context_length")),
    contextCost: splitCount > 1 ? undefined : contextCostIn([header]),
    parameters,
    quantization: (fileType === undefined ? undefined : fileTypes[fileType]) ?? mostWeights(weights),
    pooling: pooling === undefined ? undefined : poolings[pooling],
    hasChatTemplate: header.hasChatTemplate,
    splitCount,
  };
}

function whole32(value: number | undefined): number | undefined {
  return value !== undefined && Number.isInteger(value) && value > 0 && value < 2 ** 32 ? value : undefined;
}

function mostWeights(weights: ReadonlyMap<string, number>): string | undefined {
  return [...weights].toSorted(([, a], [, b]) => b - a)[0]?.[0];
}
