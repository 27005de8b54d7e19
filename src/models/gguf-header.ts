import type { ByteSource } from "./byte-source.ts";
import { GgufError, GgufReader, HeaderRoom, impossible, type GgufValue } from "./gguf-reader.ts";
import { keptKeys, tensorTypes } from "./gguf-types.ts";

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
  /** Undefined in a header without a tokenizer, as of a further file of a model. */
  readonly hasChatTemplate?: boolean | undefined;
  /** The size of the complete file; more than the source has where it is truncated. */
  readonly wholeBytes: number;
}

/** No header of a real model has more; a larger count is a damaged file. Dimensions as in ggml (GGML_MAX_DIMS). */
const limits = { keys: 65_536, tensors: 65_536, dimensions: 4 } as const;
/** The memory of a tensor beside its name, while it is read; about. */
const tensorBytes = 256;

/**
 * Reads the header only, in windows: a vocabulary of any size is skipped, and so are keys that Berth does not use.
 * `room` is shared by the headers of one model. Throws GgufError, and the source's errors.
 */
export async function readGgufHeader(source: ByteSource, room = new HeaderRoom()): Promise<GgufHeader> {
  const reader = new GgufReader(source, room);
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
  let hasChatTemplate: boolean | undefined;
  for (let index = 0; index < keys; index++) {
    const key = (await reader.text()) ?? "";
    if (key === "tokenizer.ggml.model") hasChatTemplate ??= false;
    if (key === "tokenizer.chat_template") hasChatTemplate = true;
    const isKept = keptKeys.has(key.slice(key.indexOf(".") + 1));
    const value = await reader.value(await reader.uint32(), isKept);
    if (!isKept || value === undefined) continue;
    room.take(2 * key.length + tensorBytes);
    values.set(key, value);
  }
  const tensors: GgufTensor[] = [];
  for (let index = 0; index < count; index++) {
    const tensor = await readTensor(reader);
    room.take(2 * tensor.name.length + tensorBytes);
    tensors.push(tensor);
  }
  const alignment = values.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || !Number.isInteger(alignment) || alignment < 1) throw impossible();
  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  const end = tensors.reduce((most, { offset, bytes = 0 }) => Math.max(most, offset + bytes), 0);
  // Without tensors the header alone is a complete file: a vocabulary, or the first of several shards.
  const wholeBytes = end === 0 ? reader.position : dataStart + end;
  if (!Number.isSafeInteger(wholeBytes)) throw impossible();
  return {
    values,
    tensors: tensors.map((tensor) => ({ ...tensor, offset: dataStart + tensor.offset })),
    hasChatTemplate,
    wholeBytes,
  };
}

/** `GGUF`, read as a number. */
const magic = 0x46554747;

async function readTensor(reader: GgufReader): Promise<GgufTensor> {
  const name = await reader.text();
  if (name === undefined) throw impossible();
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
