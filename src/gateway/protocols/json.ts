import { ApiError } from "../../api/errors.ts";
import { isRecord } from "../../lib/record.ts";
import { invalidJson } from "../relay/engine-failure.ts";

/** The client's body. Throws ApiError `dispatch.invalid_request`. */
export function parseRequest(body: Buffer): Record<string, unknown> {
  const value = parsed(body);
  if (!isRecord(value)) throw invalidJson(body);
  return value;
}

/** The engine's body. Throws ApiError `dispatch.upstream_failed`. */
export function parseAnswer(body: Buffer): unknown {
  const value = parsed(body);
  if (value === undefined) {
    throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer is not JSON" });
  }
  return value;
}

function parsed(body: Buffer): unknown {
  try {
    const value: unknown = JSON.parse(body.toString());
    return value;
  } catch {
    return undefined;
  }
}
