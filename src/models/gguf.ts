import { open, type FileHandle } from "node:fs/promises";
import { fileTypes, poolings, scalarBytes, tensorTypes } from "./gguf-types.ts";

/** What a GGUF header tells (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). */
export interface GgufFacts {
  readonly architecture: string | undefined;
  readonly name: string | undefined;
  readonly contextLength: number | undefined;
  /** Bytes that a token of context takes in f16, as if every layer attended to all of it. */
  readonly contextBytesPerToken: number | undefined;
  readonly parameters: number;
  /** Such as Q4_K_M; without a file type of its own, the tensor type that holds the most weights. */
  readonly quantization: string | undefined;
  readonly pooling: string | undefined;
  readonly splitCount: number;
}

/** The file is no GGUF, or only the beginning of one. */
export class GgufError extends Error {
  override readonly name = "GgufError";
  readonly reason: "NotAModel" | "TruncatedModel";

  constructor(reason: "NotAModel" | "TruncatedModel", message: string) {
    super(message);
    this.reason = reason;
  }
}

const windowBytes = 256 * 1024;
/** No header of a real model has more; a larger count is a damaged file. */
const limits = { keys: 65_536, tensors: 1_000_000, text: 16 * 1024 * 1024, dimensions: 8 } as const;
/** Reads the header only, in windows: a vocabulary of any size is passed over. Throws GgufError. */
export async function readGguf(path: string): Promise<GgufFacts> {
  await using file = await open(path, "r");
  return await read(new Reader(file, (await file.stat()).size));
}

async function read(reader: Reader): Promise<GgufFacts> {
  if (reader.size < 24) throw new GgufError("NotAModel", "is no GGUF file: it is shorter than a header");
  const magic = (await reader.bytes(4)).toString("latin1");
  if (magic !== "GGUF") throw new GgufError("NotAModel", "is no GGUF file: it does not begin with GGUF");
  const version = await reader.uint32();
  if (version >= 2 ** 24) throw new GgufError("NotAModel", "is a big-endian GGUF file, which this machine cannot run");
  if (version < 2 || version > 3) throw new GgufError("NotAModel", `has GGUF version ${version}; 2 and 3 are known`);
  const tensors = await reader.uint64();
  const keys = await reader.uint64();
  if (keys > limits.keys || tensors > limits.tensors) throw impossible();
  const values = new Map<string, string | number>();
  for (let index = 0; index < keys; index++) {
    const key = await reader.text();
    const value = await reader.value(await reader.uint32());
    if (value !== undefined) values.set(key, value);
  }
  const number = (key: string): number | undefined => {
    const value = values.get(key);
    return typeof value === "number" && Number.isFinite(value) ? value : undefined;
  };
  const text = (key: string): string | undefined => {
    const value = values.get(key);
    return typeof value === "string" && value !== "" ? value : undefined;
  };
  let parameters = 0;
  let end = 0;
  const weights = new Map<string, number>();
  for (let index = 0; index < tensors; index++) {
    await reader.text();
    const dimensions = await reader.uint32();
    if (dimensions > limits.dimensions) throw impossible();
    let elements = 1;
    for (let dimension = 0; dimension < dimensions; dimension++) elements *= await reader.uint64();
    const type = tensorTypes[await reader.uint32()];
    const offset = await reader.uint64();
    parameters += elements;
    if (type === undefined) end = Math.max(end, offset);
    else {
      weights.set(type.name, (weights.get(type.name) ?? 0) + elements);
      end = Math.max(end, offset + Math.ceil(elements / type.blockSize) * type.blockBytes);
    }
  }
  const alignment = number("general.alignment") ?? 32;
  if (!Number.isInteger(alignment) || alignment < 1 || !Number.isSafeInteger(parameters)) throw impossible();
  const dataStart = Math.ceil(reader.position / alignment) * alignment;
  // The header alone is a whole file where there are no tensors: a vocabulary, or the first of several shards.
  const whole = end === 0 ? reader.position : dataStart + end;
  if (!Number.isSafeInteger(whole)) throw impossible();
  if (whole > reader.size) {
    throw new GgufError("TruncatedModel", `is incomplete: ${whole - reader.size} of ${whole} bytes are missing`);
  }
  const architecture = text("general.architecture");
  const pooling = architecture === undefined ? undefined : number(`${architecture}.pooling_type`);
  const fileType = number("general.file_type");
  return {
    architecture,
    name: text("general.name"),
    contextLength: whole32(architecture === undefined ? undefined : number(`${architecture}.context_length`)),
    contextBytesPerToken:
      architecture === undefined ? undefined : contextBytes((key) => number(`${architecture}.${key}`)),
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

function impossible(): GgufError {
  return new GgufError("NotAModel", "has an impossible header: the file is damaged");
}

function whole32(value: number | undefined): number | undefined {
  return value !== undefined && Number.isInteger(value) && value > 0 && value < 2 ** 32 ? value : undefined;
}

function mostWeights(weights: ReadonlyMap<string, number>): string | undefined {
  return [...weights].toSorted(([, a], [, b]) => b - a)[0]?.[0];
}

/** Sequential little-endian reads through a window over the file. */
class Reader {
  readonly size: number;
  readonly #file: FileHandle;
  #window: Buffer = Buffer.alloc(0);
  #start = 0;
  position = 0;

  constructor(file: FileHandle, size: number) {
    this.#file = file;
    this.size = size;
  }

  async bytes(length: number): Promise<Buffer> {
    if (this.position + length > this.size)
      throw new GgufError("TruncatedModel", "is incomplete: it ends within its header");
    if (this.position < this.#start || this.position + length > this.#start + this.#window.length) {
      const window = Buffer.alloc(Math.min(Math.max(windowBytes, length), this.size - this.position));
      const { bytesRead } = await this.#file.read(window, 0, window.length, this.position);
      this.#window = window.subarray(0, bytesRead);
      this.#start = this.position;
      if (bytesRead < length) throw new GgufError("TruncatedModel", "is incomplete: it ends within its header");
    }
    const from = this.position - this.#start;
    this.position += length;
    return this.#window.subarray(from, from + length);
  }

  async uint32(): Promise<number> {
    return (await this.bytes(4)).readUInt32LE();
  }

  async uint64(): Promise<number> {
    return Number((await this.bytes(8)).readBigUInt64LE());
  }

  async text(): Promise<string> {
    const length = await this.uint64();
    if (length > limits.text) throw impossible();
    return (await this.bytes(length)).toString();
  }

  skip(length: number): void {
    if (this.position + length > this.size)
      throw new GgufError("TruncatedModel", "is incomplete: it ends within its header");
    this.position += length;
  }

  /** Scalars and texts as they are; arrays are passed over. */
  async value(type: number): Promise<string | number | undefined> {
    if (type === 8) return await this.text();
    if (type === 9) {
      const inner = await this.uint32();
      const count = await this.uint64();
      const size = scalarBytes[inner];
      if (size !== undefined) this.skip(size * count);
      else if (inner === 8) for (let index = 0; index < count; index++) this.skip(await this.uint64());
      else throw new GgufError("NotAModel", `has an array of unknown type ${inner}`);
      return undefined;
    }
    const size = scalarBytes[type];
    if (size === undefined) throw new GgufError("NotAModel", `has a value of unknown type ${type}`);
    const bytes = await this.bytes(size);
    switch (type) {
      case 0:
      case 7:
        return bytes.readUInt8();
      case 1:
        return bytes.readInt8();
      case 2:
        return bytes.readUInt16LE();
      case 3:
        return bytes.readInt16LE();
      case 4:
        return bytes.readUInt32LE();
      case 5:
        return bytes.readInt32LE();
      case 6:
        return bytes.readFloatLE();
      case 10:
        return Number(bytes.readBigUInt64LE());
      case 11:
        return Number(bytes.readBigInt64LE());
      default:
        return bytes.readDoubleLE();
    }
  }
}
