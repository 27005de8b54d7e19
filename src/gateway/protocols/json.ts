import type { z } from "zod";
import { ApiError } from "../../api/errors.ts";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import { mayLoseNumbers, parseExactJson, parseJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { invalidJson } from "../relay/engine-failure.ts";

/** The client's body. Throws ApiError `dispatch.invalid_request`. */
export function parseRequest(body: Buffer): Record<string, unknown> {
  return recordOf(parseJson(body), body);
}

/** The client's body, to be serialised again: as `parseExactJson` has it. Throws ApiError `dispatch.invalid_request`. */
export function parseExactRequest(body: Buffer): Record<string, unknown> {
  return recordOf(exactValue(body), body);
}

/** As `parseExactJson`. Throws ApiError `dispatch.invalid_request` for a value that is nested too deeply. */
export function exactValue(body: Buffer): unknown {
  return shallow(() => parseExactJson(body));
}

/**
 * The client's body in the form of `schema`, to be serialised again: a number that a double cannot hold is kept where the
 * schema accepts any value, and refused elsewhere. Throws ApiError `dispatch.invalid_request`.
 */
export function checkRequest<T extends z.ZodType>(schema: T, body: Buffer): z.output<T> {
  const text = body.toString();
  // First as plain numbers: a kept number is an object, and must not pass where the schema accepts objects alone.
  const plain = schema.safeParse(recordOf(parseJson(text), body));
  if (!plain.success) throw invalidRequest(problemsOf(plain.error));
  if (!mayLoseNumbers(text)) return plain.data;
  const exact = schema.safeParse(parseExactRequest(body));
  if (exact.success) return exact.data;
  const message = "must be a number that a 64-bit floating-point number can hold exactly";
  throw invalidRequest(problemsOf(exact.error).map(({ path }) => ({ path, message })));
}

function recordOf(value: unknown, body: Buffer): Record<string, unknown> {
  if (!isRecord(value)) throw invalidJson(body);
  return value;
}

/**
 * Serialises a client's body again. A value that can be parsed may still be nested too deeply to be serialised: throws
 * ApiError `dispatch.invalid_request` then.
 */
export function encodeRequest(value: object): Buffer {
  return shallow(() => Buffer.from(JSON.stringify(value)));
}

/** The engine's body. Throws ApiError `dispatch.upstream_failed`. */
export function parseAnswer(body: Buffer): unknown {
  const value = parseJson(body);
  if (value === undefined) {
    throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer is not JSON" });
  }
  return value;
}

/** The result of an act that walks a value. Throws ApiError `dispatch.invalid_request` where it exhausts the stack. */
function shallow<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ApiError("dispatch.invalid_request", { message: "the body is nested too deeply" });
  }
}
