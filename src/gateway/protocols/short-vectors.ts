import { invalidRequest } from "../../api/problems.ts";
import { failed } from "./chat-chunk.ts";
import { embeddingsAnswerSchema } from "./embeddings-format.ts";
import { withFields } from "../../lib/json-fields.ts";
import { parseForeign } from "../../lib/json.ts";
import { parseAnswer, requestFields } from "./json.ts";
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

  answer(body: Buffer): Buffer {
    const dimensions = this.#dimensions;
    if (dimensions === undefined) return body;
    const answer = embeddingsAnswerSchema.safeParse(parseAnswer(body)).data;
    if (answer === undefined) throw failed("the engine's answer has no vectors");
    const data = answer.data.map((item) => ({ ...item, embedding: shortened(item.embedding, dimensions) }));
    return Buffer.from(JSON.stringify({ ...answer, data }));
  }
}

function shortened(vector: string | readonly number[], dimensions: number): string | number[] {
  if (typeof vector !== "string") return unit(vector, dimensions);
  const bytes = Buffer.from(vector, "base64");
  const values = Array.from({ length: Math.floor(bytes.length / 4) }, (_, at) => bytes.readFloatLE(at * 4));
  // Checked first: the client's number must not decide an allocation.
  const numbers = unit(values, dimensions);
  const short = Buffer.alloc(numbers.length * 4);
  for (const [at, value] of numbers.entries()) short.writeFloatLE(value, at * 4);
  return short.toString("base64");
}

function unit(vector: readonly number[], dimensions: number): number[] {
  // No model has such vectors: a limit of 0 would blame the client.
  if (vector.length === 0) throw failed("the engine's answer has a vector without numbers");
  if (vector.length < dimensions) {
    const message = `must be at most ${vector.length}, the length of this model's vectors`;
    throw invalidRequest([{ path: ["dimensions"], message }]);
  }
  const short = vector.slice(0, dimensions);
  if (vector.length === dimensions) return short;
  const length = Math.sqrt(short.reduce((sum, value) => sum + value * value, 0));
  return length === 0 ? short : short.map((value) => value / length);
}
