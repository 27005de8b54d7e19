import type { ByteSource } from "./byte-source.ts";
import { GgufError, GgufReader, impossible, type GgufValue } from "./gguf-reader.ts";
import { tensorTypes } from "./gguf-types.ts";

export interface GgufTensor {
  readonly name: string;
  /** The length of a row first. */
  readonly dimensions: readonly number[];
  /** A type of ggml, such as Q4_K; undefined: an unknown type. */
  readonly type: string | undefined;
  readonly elements: number;
  /** Undefined where the type is not known. */
  readonly bytes: number | undefined;
  /** From the beginning of the file. */
  readonly offset: number;
}

/** The part of a GGUF file before its weights (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
export interface GgufHeader {
  readonly values: ReadonlyMap<string, GgufValue>;
  readonly tensors: readonly GgufTensor[];
  /** The size of the complete file; more than the source has where it is truncated. */
  readonly wholeBytes: number;
}

/** No header of a real model has more; a larger count is a damaged file. */
const limits = { keys: 65_536, tensors: 1_000_000, dimensions: 8 } as const;

/**
 * Reads the header only, in windows: a vocabulary of any size is skipped. Throws GgufError, and the source's errors.
 */
export async function readGgufHeader(source: ByteSource): Promise<GgufHeader> {
  const reader = new GgufReader(source);
  if (reader.sizeBytes < 24) throw new GgufError("NotAModel", "is no GGUF file: it is shorter than a header");
  if ((await reader.uint32()) !== magic) {
    throw new GgufError("NotAModel", "is no GGUF file: it does not begin with GGUF");
  }
  const version = await reader.uint32();
  if (version >= 2 ** 24) throw new GgufError("NotAModel", "is a big-endian GGUF file, which this machine cannot run");
  if (version < 2 || version > 3) throw new GgufError("NotAModel", `has GGUF version ${version}; 2 and 3 are known`);
  const count = await reader.uint64();
  const keys = await reader.uint64();
  if (keys > limits.keys || count > limits.tensors) throw impossible();
  const values = new Map<string, GgufValue>();
  for (let index = 0; index < keys; index++) {
    const key = await reader.text();
    const value = await reader.value(await reader.uint32());
    if (value !== undefined) values.set(key, value);
  }
  const tensors: GgufTensor[] = [];
  for (let index = 0; index < count; index++) tensors.push(await readTensor(reader));
  const alignment = values.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || !Number.isInteger(alignment) || alignment < 1) throw impossible();
  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const end = Math.max(0, ...chunked(tensors.map(({ offset, bytes = 0 }) => offset + bytes)));
  // Without tensors the header alone is a complete file: a vocabulary, or the first of several shards.
  const wholeBytes = end === 0 ? reader.position : dataStart + end;
  if (!Number.isSafeInteger(wholeBytes)) throw impossible();
  return {
    values,
    tensors: tensors.map((tensor) => ({ ...tensor, offset: dataStart + tensor.offset })),
    wholeBytes,
  };
}

/** `GGUF`, read as a number. */
const magic = 0x46554747;

async function readTensor(reader: GgufReader): Promise<GgufTensor> {
  const name = await reader.text();
  const rank = await reader.uint32();
  if (rank > limits.dimensions) throw impossible();
  const dimensions: number[] = [];
  for (let dimension = 0; dimension < rank; dimension++) dimensions.push(await reader.uint64());
  const elements = dimensions.reduce((one, other) => one * other, 1);
  if (!Number.isSafeInteger(elements)) throw impossible();
  const type = tensorTypes[await reader.uint32()];
  const bytes = type === undefined ? undefined : Math.ceil(elements / type.blockSize) * type.blockBytes;
  return { name, dimensions, type: type?.name, elements, bytes, offset: await reader.uint64() };
}

/** The largest number of each thousand: a call cannot take a million arguments. */
function chunked(numbers: readonly number[]): number[] {
  const found: number[] = [];
  for (let start = 0; start < numbers.length; start += 1000)
    found.push(Math.max(...numbers.slice(start, start + 1000)));
  return found;
}
