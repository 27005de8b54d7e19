/** A metadata value as GGUF writes it: its type, then its bytes. */
export type GgufValue =
  | { readonly u32: number }
  | { readonly u64: bigint }
  | { readonly text: string }
  | { readonly bool: boolean }
  | { readonly texts: readonly string[] }
  | { readonly raw: Buffer };

export interface GgufSketch {
  readonly magic?: string;
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
  /** What the data begins at a multiple of. */
  readonly alignment?: number;
}

/** The bytes of a GGUF file, right or wrong as the test wants it. */
export function ggufBytes(sketch: GgufSketch = {}): Buffer {
  const { magic = "GGUF", version = 3, metadata = {}, tensors = [], alignment = 32 } = sketch;
  const entries = Object.entries(metadata);
  const header = Buffer.concat([
    Buffer.from(magic),
    u32(version),
    u64(sketch.tensorCount ?? BigInt(tensors.length)),
    u64(sketch.keyCount ?? BigInt(entries.length)),
    ...entries.flatMap(([key, value]) => [text(key), valueBytes(value)]),
    ...tensors.flatMap(({ shape, type, offset = 0n }, index) => [
      text(`tensor.${index}`),
      u32(shape.length),
      ...shape.map((size) => u64(BigInt(size))),
      u32(type),
      u64(offset),
    ]),
  ]);
  if (sketch.dataBytes === undefined) return header;
  const padding = (alignment - (header.length % alignment)) % alignment;
  return Buffer.concat([header, Buffer.alloc(padding + sketch.dataBytes)]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(BigInt(bytes.length)), bytes]);
}

function valueBytes(value: GgufValue): Buffer {
  if ("u32" in value) return Buffer.concat([u32(4), u32(value.u32)]);
  if ("u64" in value) return Buffer.concat([u32(10), u64(value.u64)]);
  if ("bool" in value) return Buffer.concat([u32(7), Buffer.from([value.bool ? 1 : 0])]);
  if ("text" in value) return Buffer.concat([u32(8), text(value.text)]);
  if ("texts" in value)
    return Buffer.concat([u32(9), u32(8), u64(BigInt(value.texts.length)), ...value.texts.map(text)]);
  return value.raw;
}
