import { invalidRequest } from "../../api/problems.ts";
import { isBlank } from "../../lib/json-bytes.ts";
import { withFields } from "../../lib/json-fields.ts";
import { isWholeJson, parseForeign } from "../../lib/json.ts";
import { notJson } from "../relay/engine-failure.ts";
import { failed, requestFields } from "./json.ts";
import type { Translation } from "./translation.ts";

const mark = Buffer.from('"dimensions"');

/** Whether a body may contain `dimensions`: checked first, since most bodies do not and pass unchanged. */
export function mayAskForLength(body: Buffer): boolean {
  return body.includes(mark);
}

/**
 * `dimensions` of OpenAI's embeddings over engines without it: each vector is cut and normalised to length 1, as models
 * with such vectors are trained for (Matryoshka).
 */
export class ShortVectors implements Translation {
  #dimensions: number | undefined;

  request(body: Buffer): Buffer {
    const fields = requestFields(body);
    const field = fields.findLast(({ name }) => name === "dimensions");
    if (field === undefined) return body;
    const dimensions = parseForeign(body.subarray(field.valueStart, field.end));
    if (dimensions === null) return body;
    if (typeof dimensions !== "number" || !Number.isSafeInteger(dimensions) || dimensions < 1)
      throw invalidRequest([{ path: ["dimensions"], message: "must be a whole number, at least 1" }]);
    this.#dimensions = dimensions;
    const kept = fields.filter(({ name }) => name !== "dimensions");
    return withFields(body, kept, {});
  }

  /** Each vector is cut where it stands, without parsing the whole answer: a batch has millions of numbers. */
  answer(body: Buffer): Buffer {
    const dimensions = this.#dimensions;
    if (dimensions === undefined) return body;
    if (!isWholeJson(body)) throw failed(notJson);
    const parts: Buffer[] = [];
    let copied = 0;
    for (let at = body.indexOf(name); at >= 0; at = body.indexOf(name, at + name.length)) {
      const start = valueStart(body, at + name.length);
      if (start === undefined) continue;
      const end = body.indexOf(body[start] === quote ? quote : closeBracket, start + 1) + 1;
      if (end === 0) throw failed("the answer has a vector without an end");
      const vector = body.subarray(start, end);
      const short = body[start] === quote ? shortText(vector, dimensions) : shortList(vector, dimensions);
      parts.push(body.subarray(copied, start), Buffer.from(short));
      copied = end;
    }
    if (parts.length === 0) throw failed("the answer has no vectors");
    parts.push(body.subarray(copied));
    return Buffer.concat(parts);
  }
}

const name = Buffer.from('"embedding"');
const quote = 0x22;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const comma = 0x2c;

/** Where the value of a name begins that ends at `from`; undefined where no text or list follows, as behind `"object": "embedding"`. */
function valueStart(body: Buffer, from: number): number | undefined {
  let at = from;
  while (isBlank(body[at])) at += 1;
  if (body[at] !== 0x3a) return undefined;
  at += 1;
  while (isBlank(body[at])) at += 1;
  return body[at] === quote || body[at] === openBracket ? at : undefined;
}

function shortList(vector: Buffer, dimensions: number): string {
  let end = 0;
  // One number more: a vector of that length stays as it is.
  for (let count = 0; count <= dimensions; count += 1) {
    const next = vector.indexOf(comma, end + 1);
    end = next < 0 ? vector.length - 1 : next;
    if (next < 0) break;
  }
  const numbers = parseForeign(`${vector.toString("latin1", 0, end)}]`);
  if (!Array.isArray(numbers) || !numbers.every((each) => typeof each === "number"))
    throw failed("the answer has a vector that is no list of numbers");
  checkLength(numbers.length, dimensions);
  const short = numbers.slice(0, dimensions);
  if (numbers.length > dimensions) normalise(short);
  return JSON.stringify(short);
}

function shortText(vector: Buffer, dimensions: number): string {
  const bytes = Buffer.from(vector.toString("latin1", 1, vector.length - 1), "base64");
  // Copied, since floats must be aligned. They are little-endian, as every processor that Node runs on.
  const numbers = new Float32Array(new Uint8Array(bytes).buffer, 0, Math.floor(bytes.length / 4));
  checkLength(numbers.length, dimensions);
  const short = numbers.slice(0, dimensions);
  if (numbers.length > dimensions) normalise(short);
  return `"${Buffer.from(short.buffer).toString("base64")}"`;
}

/** Checked first: the client's number must not decide an allocation. */
function checkLength(length: number, dimensions: number): void {
  // No model has such vectors: a limit of 0 would blame the client.
  if (length === 0) throw failed("the answer has a vector without numbers");
  if (length >= dimensions) return;
  const message = `must be at most ${length}, the length of this model's vectors`;
  throw invalidRequest([{ path: ["dimensions"], message }]);
}

/** In place. */
function normalise(vector: number[] | Float32Array): void {
  let sum = 0;
  for (const value of vector) sum += value * value;
  const length = Math.sqrt(sum);
  if (length === 0) return;
  for (let at = 0; at < vector.length; at += 1) vector[at] = (vector[at] ?? 0) / length;
}
