import { u32, u64 } from "./gguf.ts";

/** A metadata value; lists of numbers and of booleans alone. */
export type Value =
  | number
  | boolean
  | string
  | { readonly f32: number }
  | { readonly f32s: readonly number[] }
  | readonly number[]
  | readonly boolean[];

/** A length, then the text. */
export function textBytes(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([u64(BigInt(bytes.length)), bytes]);
}

/** A key with its value. */
export function keyBytes(key: string, value: Value): Buffer {
  return Buffer.concat([textBytes(key), valueBytes(key, value)]);
}

function valueBytes(key: string, value: Value): Buffer {
  if (typeof value === "string") return Buffer.concat([u32(8), textBytes(value)]);
  if (typeof value === "boolean") return Buffer.concat([u32(7), Buffer.from([value ? 1 : 0])]);
  if (typeof value === "number") return Buffer.concat([u32(4), u32(value)]);
  if ("f32" in value) return Buffer.concat([u32(6), f32(value.f32)]);
  if ("f32s" in value) return Buffer.concat([u32(9), u32(6), u64(BigInt(value.f32s.length)), ...value.f32s.map(f32)]);
  const first = value[0];
  if (first === undefined) throw new Error(`${key} is an empty list`);
  const items = value.map((item) => (typeof item === "boolean" ? Buffer.from([item ? 1 : 0]) : u32(item)));
  return Buffer.concat([u32(9), u32(typeof first === "boolean" ? 7 : 5), u64(BigInt(items.length)), ...items]);
}

function f32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
}

/** A SentencePiece vocabulary of bytes and made-up words. */
export function vocabularyBytes(count: number): { readonly bytes: Buffer; readonly keys: number } {
  const tokens = [
    "<unk>",
    "<s>",
    "</s>",
    ...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  ];
  for (let index = tokens.length; index < count; index++) tokens.push(`▁w${index.toString(36)}`);
  const list = (key: string, type: number, items: readonly Buffer[]): Buffer[] => [
    textBytes(key),
    u32(9),
    u32(type),
    u64(BigInt(items.length)),
    ...items,
  ];
  const score = (index: number): Buffer => f32(index < 259 ? 0 : -index);
  const kept = tokens.slice(0, Math.max(count, 1));
  const parts = [
    textBytes("tokenizer.ggml.model"),
    u32(8),
    textBytes("llama"),
    ...list("tokenizer.ggml.tokens", 8, kept.map(textBytes)),
    ...list(
      "tokenizer.ggml.scores",
      6,
      kept.map((_, index) => score(index)),
    ),
    ...list(
      "tokenizer.ggml.token_type",
      5,
      kept.map((_, index) => u32(index === 0 ? 2 : index < 3 ? 3 : index < 259 ? 6 : 1)),
    ),
    ...["bos", "eos", "unknown"].flatMap((name, index) => [
      textBytes(`tokenizer.ggml.${name}_token_id`),
      u32(4),
      u32([1, 2, 0][index] ?? 0),
    ]),
    textBytes("tokenizer.chat_template"),
    u32(8),
    textBytes("{% for message in messages %}{{ message['content'] }}{% endfor %}"),
  ];
  return { bytes: Buffer.concat(parts), keys: 8 };
}
