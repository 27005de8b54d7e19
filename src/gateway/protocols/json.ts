import { ApiError } from "../../api/errors.ts";
import { isRecord } from "../../lib/record.ts";
import { invalidJson } from "../relay/engine-failure.ts";
import { parseJson } from "../../lib/json.ts";

/** The client's body. Throws ApiError `dispatch.invalid_request`. */
export function parseRequest(body: Buffer): Record<string, unknown> {
  const value = parseJson(body);
  if (!isRecord(value)) throw invalidJson(body);
  return value;
}

/**
 * Serialises a client's body again. A value that can be parsed may still be nested too deeply to be serialised: throws
 * ApiError `dispatch.invalid_request` then.
 */
export function encodeRequest(value: object): Buffer {
  try {
    return Buffer.from(JSON.stringify(value));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new ApiError("dispatch.invalid_request", { message: "the body is nested too deeply" });
  }
}

/** The engine's body. Throws ApiError `dispatch.upstream_failed`. */
export function parseAnswer(body: Buffer): unknown {
  const value = parseJson(body);
  if (value === undefined) {
    throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer is not JSON" });
  }
  return value;
}
