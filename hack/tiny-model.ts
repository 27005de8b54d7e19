import { mkdir, rename, truncate, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Writes a random-weights GGUF of half a megabyte: two layers, 64 wide, a few hundred tokens. Its weights are noise, so
 * its text is noise; it loads in a moment and answers with real tokens from real llama.cpp. Format:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 */

const width = 64;
const heads = 4;
const layers = 2;
const contextLength = 2048;
const endToken = 2;

const plainTemplate =
  "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

const words =
  "the a of and to in is it you that he was for on are with as his they be at one have this from or had by hot but some what there we can out other were all your when up use word how said an each she which do their time if will way about many then them would write like so these her long make thing see him two has look more day could go come did my sound no most number who over know water than call first people may down side been now find any new work part take get place made live where after back little only round man year came show every good me give our under name very through just form much great think say help low line before turn cause same mean differ move right boy old too does tell sentence set three want air well also play small end put home read hand port large spell add even land here must big high such follow act why ask men change went light kind off need house picture try us again animal point mother world near build self earth father".split(
    " ",
  );

/** mulberry32: the same seed gives the same model, so that tests can compare. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

class Writer {
  readonly #parts: Buffer[] = [];
  length = 0;

  bytes(buffer: Buffer): this {
    this.#parts.push(buffer);
    this.length += buffer.length;
    return this;
  }

  u32(value: number): this {
    const buffer = Buffer.alloc(4);
    buffer.writeUInt32LE(value);
    return this.bytes(buffer);
  }

  u64(value: number): this {
    const buffer = Buffer.alloc(8);
    buffer.writeBigUInt64LE(BigInt(value));
    return this.bytes(buffer);
  }

  f32(value: number): this {
    const buffer = Buffer.alloc(4);
    buffer.writeFloatLE(value);
    return this.bytes(buffer);
  }

  text(value: string): this {
    const buffer = Buffer.from(value);
    return this.u64(buffer.length).bytes(buffer);
  }

  pad(alignment: number): this {
    return this.bytes(Buffer.alloc((alignment - (this.length % alignment)) % alignment));
  }

  done(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

type Value =
  | { u32: number }
  | { f32: number }
  | { text: string }
  | { bool: boolean }
  | { texts: string[] }
  | { f32s: number[] }
  | { i32s: number[] };

function writeValue(writer: Writer, value: Value): void {
  if ("u32" in value) writer.u32(4).u32(value.u32);
  else if ("f32" in value) writer.u32(6).f32(value.f32);
  else if ("bool" in value) writer.u32(7).bytes(Buffer.from([value.bool ? 1 : 0]));
  else if ("text" in value) writer.u32(8).text(value.text);
  else if ("texts" in value) {
    writer.u32(9).u32(8).u64(value.texts.length);
    for (const text of value.texts) writer.text(text);
  } else if ("f32s" in value) {
    writer.u32(9).u32(6).u64(value.f32s.length);
    for (const number of value.f32s) writer.f32(number);
  } else {
    writer.u32(9).u32(5).u64(value.i32s.length);
    for (const number of value.i32s) writer.u32(number);
  }
}

export interface TinyOptions {
  /** With mean pooling in its header, which makes it an embedding model. */
  readonly embedding?: boolean;
  readonly name?: string;
  /**
   * Pieces of text, each once, that the model prints in this order, whatever the prompt is. A prompt that ends in a piece
   * gets the pieces after it.
   */
  readonly says?: readonly string[];
  /** Null: none, as in base weights. */
  readonly chatTemplate?: string | null;
  /** Tokens; absent: 2048. */
  readonly contextLength?: number;
  /** With a ranking head, in the one architecture that llama.cpp gives both a small tokenizer and such a head. */
  readonly ranker?: boolean;
  /** Width of feed-forward layers that are holes in the file: they need no disk space, and time to load. */
  readonly hollow?: number;
}

/** The model's bytes before its holes, and the length of the whole file. */
function tinyModel(options: TinyOptions): { readonly bytes: Buffer; readonly sizeBytes: number } {
  const next = random(42);
  const says = options.says ?? [];
  const spoken = says.map((piece) => piece.replaceAll(" ", "▁"));
  const feedForward = options.hollow ?? 128;
  const isRanker = options.ranker === true;
  const architecture = isRanker ? "qwen3" : "llama";
  // SentencePiece style: ▁ stands for the blank before a word.
  const tokens = [
    "<unk>",
    "<s>",
    "</s>",
    ...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
    // llama.cpp wants each text once: a word that is also a piece of the script is left out here.
    ...words.map((word) => `▁${word}`).filter((word) => !spoken.includes(word)),
    // A script is parsed for its marks, so that text and tokens must agree about blanks.
    ...(says.length > 0 ? ["▁"] : []),
    ...spoken,
  ];
  const types = tokens.map((_, index) => (index === 0 ? 2 : index < 3 ? 3 : index < 259 ? 6 : 1));
  const scores = tokens.map((_, index) => (index < 259 ? 0 : -index));
  const metadata: [string, Value][] = [
    ["general.architecture", { text: architecture }],
    ["general.name", { text: options.name ?? (options.embedding === true ? "tiny-embed" : "tiny") }],
    ["general.file_type", { u32: 0 }],
    [`${architecture}.context_length`, { u32: options.contextLength ?? contextLength }],
    [`${architecture}.embedding_length`, { u32: width }],
    [`${architecture}.block_count`, { u32: layers }],
    [`${architecture}.feed_forward_length`, { u32: feedForward }],
    [`${architecture}.attention.head_count`, { u32: heads }],
    [`${architecture}.attention.head_count_kv`, { u32: heads }],
    [`${architecture}.attention.layer_norm_rms_epsilon`, { f32: 1e-5 }],
    [`${architecture}.rope.dimension_count`, { u32: width / heads }],
    [`${architecture}.vocab_size`, { u32: tokens.length }],
    ...(isRanker
      ? ([
          [`${architecture}.pooling_type`, { u32: 4 }],
          [`${architecture}.attention.key_length`, { u32: width / heads }],
          [`${architecture}.attention.value_length`, { u32: width / heads }],
          [`${architecture}.classifier.output_labels`, { texts: ["yes", "no"] }],
        ] satisfies [string, Value][])
      : []),
    ...(options.embedding === true ? [[`${architecture}.pooling_type`, { u32: 1 }] satisfies [string, Value]] : []),
    ["tokenizer.ggml.model", { text: "llama" }],
    ["tokenizer.ggml.tokens", { texts: tokens }],
    ["tokenizer.ggml.scores", { f32s: scores }],
    ["tokenizer.ggml.token_type", { i32s: types }],
    ["tokenizer.ggml.bos_token_id", { u32: 1 }],
    ["tokenizer.ggml.eos_token_id", { u32: endToken }],
    ["tokenizer.ggml.unknown_token_id", { u32: 0 }],
    ...(says.length > 0 ? [["tokenizer.ggml.add_space_prefix", { bool: false }] satisfies [string, Value]] : []),
    ...(options.chatTemplate === null
      ? []
      : [["tokenizer.chat_template", { text: options.chatTemplate ?? plainTemplate }] satisfies [string, Value]]),
  ];
  const noise = (count: number, scale: number): Float32Array =>
    Float32Array.from({ length: count }, () => (next() - 0.5) * scale);
  const ones = (count: number): Float32Array => new Float32Array(count).fill(1);
  const embedding = noise(width * tokens.length, 2);
  // Only words are likely, so that a person sees words; the end and single bytes are unlikely by opposite rows.
  const output = noise(width * tokens.length, 0.6);
  for (let token = 0; token < tokens.length; token++) {
    embedding[token * width] = 3;
    output[token * width] = token < 259 ? -6 : 0.3;
  }
  const isScripted = says.length > 0;
  if (isScripted) script(tokens.length, says.length, embedding, output, next);
  const tensors: [string, number[], Float32Array | undefined][] = [
    ["token_embd.weight", [width, tokens.length], embedding],
    ["output_norm.weight", [width], ones(width)],
    ["output.weight", [width, tokens.length], output],
  ];
  for (let layer = 0; layer < layers; layer++) {
    const name = (part: string): string => `blk.${layer}.${part}.weight`;
    tensors.push([name("attn_norm"), [width], ones(width)]);
    for (const part of ["attn_q", "attn_k", "attn_v", "attn_output"])
      tensors.push([name(part), [width, width], noise(width * width, 0.3)]);
    if (isRanker)
      for (const part of ["attn_q_norm", "attn_k_norm"])
        tensors.push([name(part), [width / heads], ones(width / heads)]);
    tensors.push([name("ffn_norm"), [width], ones(width)]);
    const wide = (scale: number): Float32Array | undefined =>
      options.hollow === undefined ? noise(width * feedForward, scale) : undefined;
    tensors.push([name("ffn_gate"), [width, feedForward], wide(0.3)]);
    tensors.push([name("ffn_up"), [width, feedForward], wide(0.3)]);
    tensors.push([name("ffn_down"), [feedForward, width], wide(0.2)]);
  }
  if (isRanker) tensors.push(["cls.output.weight", [width, 2], noise(width * 2, 2)]);
  // Nothing writes the first coordinate, which distinguishes words from the rest.
  for (const [name, [inner = 0], data] of tensors) {
    if (!/attn_output|ffn_down/.test(name)) continue;
    if (data === undefined) continue;
    if (isScripted) data.fill(0);
    else for (let column = 0; column < inner; column++) data[column] = 0;
  }
  const writer = new Writer().bytes(Buffer.from("GGUF")).u32(3).u64(tensors.length).u64(metadata.length);
  for (const [key, value] of metadata) {
    writer.text(key);
    writeValue(writer, value);
  }
  // Holes are at the end, where extending the file makes them.
  tensors.sort(([, , a], [, , b]) => Number(a === undefined) - Number(b === undefined));
  let offset = 0;
  for (const [name, shape] of tensors) {
    writer.text(name).u32(shape.length);
    for (const size of shape) writer.u64(size);
    writer.u32(0).u64(offset);
    offset += Math.ceil((shape.reduce((a, b) => a * b, 1) * 4) / 32) * 32;
  }
  writer.pad(32);
  const sizeBytes = writer.length + offset;
  for (const [, , data] of tensors)
    if (data !== undefined) writer.bytes(Buffer.from(data.buffer, data.byteOffset, data.byteLength)).pad(32);
  return { bytes: writer.done(), sizeBytes };
}

/**
 * Makes the next token of the script each token's most likely successor: with layers that add nothing, the next token
 * follows from the last one alone, and its output row is the embedding of the one before it. The tokens outside of the
 * script share their first coordinate, which the script begins after.
 */
function script(
  tokens: number,
  pieces: number,
  embedding: Float32Array,
  output: Float32Array,
  next: () => number,
): void {
  const begin = tokens - pieces;
  for (let index = 0; index < embedding.length; index++) embedding[index] = next() - 0.5;
  for (let token = 0; token < tokens; token++) embedding[token * width] = token < begin ? 4 : 0;
  output.fill(0);
  output[begin * width] = 5;
  for (let token = begin; token < tokens; token++) {
    const after = token + 1 < tokens ? token + 1 : endToken;
    const row = embedding.subarray(token * width, (token + 1) * width);
    const scale = 5 / Math.hypot(...row);
    for (let column = 0; column < width; column++) output[after * width + column] = (row[column] ?? 0) * scale;
  }
}

/** Writes the model to its path, whole or not at all. */
export async function writeTinyModel(path: string, options: TinyOptions = {}): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const draft = `${path}.${process.pid}.tmp`;
  const { bytes, sizeBytes } = tinyModel(options);
  await writeFile(draft, bytes);
  await truncate(draft, sizeBytes);
  await rename(draft, path);
}
