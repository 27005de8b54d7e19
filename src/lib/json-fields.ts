import { JsonWalk } from "./json-walk.ts";

const quote = 0x22;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const colon = 0x3a;
const comma = 0x2c;

/** A field of an object. Offsets are bytes. */
export interface JsonField {
  readonly name: string;
  /** Where the name begins, with its quote. */
  readonly start: number;
  readonly valueStart: number;
  readonly end: number;
}

/**
 * The fields of a JSON object, found without parsing their values, one entry per occurrence. Undefined where the bytes are
 * no object, as far as this looks, or are beyond a bound of `JsonWalk`.
 */
export function fieldsOf(bytes: Buffer): readonly JsonField[] | undefined {
  const walk = new JsonWalk(bytes);
  const fields: JsonField[] = [];
  let at = walk.blankEnd(0);
  if (bytes[at] !== openBrace) return undefined;
  at = walk.blankEnd(at + 1);
  if (bytes[at] === closeBrace) return fields;
  for (;;) {
    if (bytes[at] !== quote) return undefined;
    const start = at;
    const nameEnd = walk.nameEnd(at);
    const name = nameEnd < 0 ? undefined : textOf(bytes.subarray(start, nameEnd));
    if (name === undefined) return undefined;
    at = walk.blankEnd(nameEnd);
    if (bytes[at] !== colon) return undefined;
    const valueStart = walk.blankEnd(at + 1);
    const end = walk.valueEnd(valueStart);
    if (end < 0) return undefined;
    fields.push({ name, start, valueStart, end });
    at = walk.blankEnd(end);
    if (bytes[at] === closeBrace) return fields;
    if (bytes[at] !== comma) return undefined;
    at = walk.blankEnd(at + 1);
  }
}

/** The object with `kept` of its fields as they are written, and `added` behind them. */
export function withFields(
  bytes: Buffer,
  kept: readonly JsonField[],
  added: Readonly<Record<string, unknown>>,
): Buffer {
  const parts = kept.map(({ start, end }) => bytes.subarray(start, end));
  for (const [name, value] of Object.entries(added))
    if (value !== undefined) parts.push(Buffer.from(`${JSON.stringify(name)}:${JSON.stringify(value)}`));
  const separated = parts.flatMap((part, index) => (index === 0 ? [part] : [separator, part]));
  return Buffer.concat([opening, ...separated, closing]);
}

const opening = Buffer.from("{");
const separator = Buffer.from(",");
const closing = Buffer.from("}");

function textOf(bytes: Buffer): string | undefined {
  try {
    return String(JSON.parse(bytes.toString()));
  } catch {
    return undefined;
  }
}
