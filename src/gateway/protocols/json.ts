import type { z } from "zod";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import { fieldsOf, type JsonField } from "../../lib/json-fields.ts";
import {
  isParseable,
  keepsNumbers,
  parsedBounds,
  parsedValues,
  parseForeign,
  parseJson,
  withExactNumbers,
} from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { invalidJson } from "../relay/engine-failure.ts";

/** The client's body. Throws ApiError `dispatch.invalid_request`, also for a body that is too large to be parsed. */
export function parseRequest(body: Buffer): Record<string, unknown> {
  checkParseable(body);
  return recordOf(parseJson(body), body);
}

/** The fields of the client's body, whose values are not parsed. Throws ApiError `dispatch.invalid_request`. */
export function requestFields(body: Buffer): readonly JsonField[] {
  const fields = fieldsOf(body);
  if (fields === undefined) throw invalidJson(body);
  return fields;
}

/**
 * The client's body in the form of `schema`, to be serialised again: a number that a double cannot hold is kept where the
 * schema accepts any value, and refused elsewhere, as long as the body `keepsNumbers`. Throws ApiError
 * `dispatch.invalid_request`, also for a body that is too large to be parsed.
 */
export function checkRequest<T extends z.ZodType>(schema: T, body: Buffer): z.output<T> {
  const values = checkParseable(body);
  const text = body.toString();
  // First as plain numbers: a kept number is an object, and must not pass where the schema accepts objects alone.
  const plain = schema.safeParse(recordOf(parseJson(text), body));
  if (!plain.success) throw invalidRequest(problemsOf(plain.error));
  if (!keepsNumbers(text, values)) return plain.data;
  const exact = schema.safeParse(recordOf(withExactNumbers(text), body));
  if (exact.success) return exact.data;
  const message = "must be a number that a 64-bit floating-point number can hold exactly";
  throw invalidRequest(problemsOf(exact.error).map(({ path }) => ({ path, message })));
}

/** Returns the number of the body's names and values. */
function checkParseable(body: Buffer): number {
  const values = parsedValues(body);
  if (values !== undefined) return values;
  const message = `the body holds too much to be translated: at most ${parsedBounds}`;
  throw invalidRequest([{ path: [], message }]);
}

function recordOf(value: unknown, body: Buffer): Record<string, unknown> {
  if (!isRecord(value)) throw invalidJson(body);
  return value;
}

/** Serialises a value for an engine. */
export function encodeRequest(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** The engine's body. Throws ApiError `dispatch.upstream_failed`. */
export function parseAnswer(body: Buffer): unknown {
  const value = parseForeign(body);
  if (value !== undefined) return value;
  throw failed(`the answer ${isParseable(body) ? "is not JSON" : `holds more than ${parsedBounds}`}`);
}

/** The count in the engine's answer about the tokens of a request. Throws ApiError `dispatch.upstream_failed`. */
export function parseCount(body: Buffer): number {
  const answer = parseAnswer(body);
  const count = isRecord(answer) ? answer["input_tokens"] : undefined;
  if (typeof count !== "number") throw failed("the answer is no count");
  return count;
}

/** The client's error for an invalid answer of the engine. */
export function failed(message: string): ApiError {
  return new ApiError("dispatch.upstream_failed", { message });
}
