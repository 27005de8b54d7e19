/** A metadata value. A number is an unsigned one of 32 bits; a list holds signed numbers or booleans. */
export type GgufValue =
  | number
  | boolean
  | string
  | readonly number[]
  | readonly boolean[]
  | { readonly u32: number }
  | { readonly u64: bigint }
  | { readonly f32: number }
  | { readonly f32s: readonly number[] }
  | { readonly text: string }
  | { readonly texts: readonly string[] }
  | { readonly raw: Buffer };

export interface GgufTensor {
  readonly name: string;
  readonly shape: readonly (number | bigint)[];
  readonly type: number;
  readonly offset: number | bigint;
}

export interface GgufSketch {
  readonly version?: number;
  /** Absent: as many as there are. */
  readonly tensorCount?: bigint;
  readonly keyCount?: bigint;
  readonly metadata?: Readonly<Record<string, GgufValue>>;
  readonly tensors?: readonly {
    readonly shape: readonly (number | bigint)[];
    readonly type: number;
    readonly offset?: bigint;
  }[];
  /** Behind the padded header. */
  readonly dataBytes?: number;
  /** The data begins at a multiple of it. */
  readonly alignment?: number;
}

/** The bytes of a GGUF file, right or wrong as the test wants it. */
export function ggufBytes(sketch: GgufSketch = {}): Buffer {
  const { metadata = {}, tensors = [], alignment = 32, dataBytes } = sketch;
  const named = tensors.map(({ offset = 0n, ...rest }, index) => ({ name: `tensor.${index}`, offset, ...rest }));
  const header = ggufHeader(metadata, named, sketch);
  return dataBytes === undefined ? header : Buffer.concat([padded(header, alignment), Buffer.alloc(dataBytes)]);
}

export function ggufHeader(
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly GgufTensor[],
  { version = 3, tensorCount, keyCount }: Pick<GgufSketch, "version" | "tensorCount" | "keyCount"> = {},
): Buffer {
  const entries = Object.entries(metadata);
  return Buffer.concat([
    Buffer.from("GGUF"),
    u32(version),
    u64(tensorCount ?? tensors.length),
    u64(keyCount ?? entries.length),
    ...entries.flatMap(([key, value]) => [text(key), valueBytes(value)]),
    ...tensors.flatMap(({ name, shape, type, offset }) => [
      text(name),
      u32(shape.length),
      ...shape.map(u64),
      u32(type),
      u64(offset),
    ]),
  ]);
}

/** The header with the zeros before its data. */
export function padded(header: Buffer, alignment = 32): Buffer {
  return Buffer.concat([header, Buffer.alloc((alignment - (header.length % alignment)) % alignment)]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

/** A length, then the text. */
function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(bytes.length), bytes]);
}

/** The type, then the bytes. */
function valueBytes(value: GgufValue): Buffer {
  if (typeof value === "string") return valueBytes({ text: value });
  if (typeof value === "number") return valueBytes({ u32: value });
  if (typeof value === "boolean") return Buffer.concat([u32(7), truth(value)]);
  if ("u32" in value) return Buffer.concat([u32(4), u32(value.u32)]);
  if ("u64" in value) return Buffer.concat([u32(10), u64(value.u64)]);
  if ("f32" in value) return Buffer.concat([u32(6), f32(value.f32)]);
  if ("f32s" in value) return listBytes(6, value.f32s.map(f32));
  if ("text" in value) return Buffer.concat([u32(8), text(value.text)]);
  if ("texts" in value) return listBytes(8, value.texts.map(text));
  if ("raw" in value) return value.raw;
  const items = value.map((item) => (typeof item === "boolean" ? truth(item) : u32(item)));
  return listBytes(typeof value[0] === "boolean" ? 7 : 5, items);
}

function listBytes(type: number, items: readonly Buffer[]): Buffer {
  return Buffer.concat([u32(9), u32(type), u64(items.length), ...items]);
}

function truth(value: boolean): Buffer {
  return Buffer.from([value ? 1 : 0]);
}
