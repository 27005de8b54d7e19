import type { ByteSource } from "./byte-source.ts";
import { scalarBytes } from "./gguf-types.ts";

/** The file is no GGUF, or only the beginning of a GGUF. */
export class GgufError extends Error {
  override readonly name = "GgufError";
  readonly reason: "NotAModel" | "TruncatedModel";

  constructor(reason: "NotAModel" | "TruncatedModel", message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Only lists of numbers and booleans are kept, and none longer than a model has layers. */
export type GgufValue = string | number | boolean | readonly number[] | readonly boolean[];

/** Longer texts, such as chat templates, and longer lists, such as vocabularies, are skipped. */
const mostKept = { textBytes: 1024, items: 4096 } as const;
/** A header of a real model, with its vocabulary, has less than 32 MiB. Without a limit a sparse file would be read for hours. */
const headerBytes = 128 * 1024 * 1024;

export function impossible(): GgufError {
  return new GgufError("NotAModel", "has an impossible header: the file is damaged");
}

/** The memory that the headers of one model may still take. Real models take less than 1 MiB. */
export class HeaderRoom {
  #bytes = 4 * 1024 * 1024;

  /** Throws GgufError if there is no room left. */
  take(bytes: number): void {
    this.#bytes -= bytes;
    if (this.#bytes < 0) throw new GgufError("NotAModel", "has a larger header than any model: the file is damaged");
  }
}

/** Sequential little-endian reads through a window over the source. */
export class GgufReader {
  readonly #source: ByteSource;
  readonly #room: HeaderRoom;
  #window: Buffer = Buffer.alloc(0);
  #start = 0;
  position = 0;

  constructor(source: ByteSource, room: HeaderRoom) {
    this.#source = source;
    this.#room = room;
  }

  get sizeBytes(): number {
    return this.#source.sizeBytes;
  }

  async uint32(): Promise<number> {
    const at = await this.#take(4);
    return this.#window.readUInt32LE(at);
  }

  async uint64(): Promise<number> {
    const at = await this.#take(8);
    return Number(this.#window.readBigUInt64LE(at));
  }

  /** A text; undefined for a skipped text. */
  async text(): Promise<string | undefined> {
    const length = await this.uint64();
    if (length > mostKept.textBytes) {
      this.#skip(length);
      return undefined;
    }
    const at = await this.#take(length);
    return this.#window.toString("utf8", at, at + length);
  }

  /** A metadata value; undefined for a skipped value, as are all with `isKept` false. */
  async value(type: number, isKept: boolean): Promise<GgufValue | undefined> {
    if (type === 8) {
      const text = await this.text();
      if (!isKept || text === undefined) return undefined;
      this.#room.take(2 * text.length);
      return text;
    }
    if (type === 9) return await this.#list(isKept);
    const size = scalarBytes[type];
    if (size === undefined) throw new GgufError("NotAModel", `has a value of unknown type ${type}`);
    return scalar(this.#window, await this.#take(size), type);
  }

  async #list(isKept: boolean): Promise<readonly number[] | readonly boolean[] | undefined> {
    const type = await this.uint32();
    const count = await this.uint64();
    const size = scalarBytes[type];
    if (type === 8) {
      await this.#skipTexts(count);
      return undefined;
    }
    if (size === undefined) throw new GgufError("NotAModel", `has an array of unknown type ${type}`);
    if (!isKept || count > mostKept.items) {
      this.#skip(size * count);
      return undefined;
    }
    this.#room.take(16 * count);
    const at = await this.#take(size * count);
    const items = Array.from({ length: count }, (_, index) => scalar(this.#window, at + index * size, type));
    return type === 7
      ? items.filter((item) => typeof item === "boolean")
      : items.filter((item) => typeof item === "number");
  }

  /** There are hundreds of thousands: those within the window are skipped without an await for each. */
  async #skipTexts(count: number): Promise<void> {
    let left = count;
    while (left > 0) {
      if (!this.#has(8)) await this.#fill(8);
      while (left > 0 && this.#has(8)) {
        const length = Number(this.#window.readBigUInt64LE(this.position - this.#start));
        this.#skip(8 + length);
        left -= 1;
      }
    }
  }

  /** The offset of the next bytes within the window; the position is behind them. */
  async #take(length: number): Promise<number> {
    if (!this.#has(length)) await this.#fill(length);
    const at = this.position - this.#start;
    this.position += length;
    return at;
  }

  #has(length: number): boolean {
    return this.position >= this.#start && this.position + length <= this.#start + this.#window.length;
  }

  #skip(length: number): void {
    if (this.position + length > headerBytes) throw impossible();
    if (this.position + length > this.sizeBytes) throw ended();
    this.position += length;
  }

  async #fill(length: number): Promise<void> {
    if (this.position + length > headerBytes) throw impossible();
    if (this.position + length > this.sizeBytes) throw ended();
    const wanted = Math.min(Math.max(this.#source.windowBytes, length), this.sizeBytes - this.position);
    this.#window = await this.#source.readRange(this.position, wanted);
    this.#start = this.position;
    if (this.#window.length < length) throw ended();
  }
}

function ended(): GgufError {
  return new GgufError("TruncatedModel", "is incomplete: it ends within its header");
}

function scalar(bytes: Buffer, at: number, type: number): number | boolean {
  switch (type) {
    case 0:
      return bytes.readUInt8(at);
    case 1:
      return bytes.readInt8(at);
    case 2:
      return bytes.readUInt16LE(at);
    case 3:
      return bytes.readInt16LE(at);
    case 4:
      return bytes.readUInt32LE(at);
    case 5:
      return bytes.readInt32LE(at);
    case 6:
      return bytes.readFloatLE(at);
    case 7:
      return bytes.readUInt8(at) !== 0;
    case 10:
      return Number(bytes.readBigUInt64LE(at));
    case 11:
      return Number(bytes.readBigInt64LE(at));
    default:
      return bytes.readDoubleLE(at);
  }
}
