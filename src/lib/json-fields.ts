import { JsonWalk } from "./json-walk.ts";

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
  const fields: JsonField[] = [];
  const isRead = new JsonWalk(bytes).fields((start, nameEnd, valueStart, end) => {
    const name = textOf(bytes.subarray(start, nameEnd));
    if (name !== undefined) fields.push({ name, start, valueStart, end });
    return name !== undefined;
  });
  return isRead ? fields : undefined;
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
