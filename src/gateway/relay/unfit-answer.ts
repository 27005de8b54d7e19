import { ApiError } from "../../api/errors.ts";
import { StreamGarbage } from "./event-stream.ts";

/**
 * The client's error for an answer that cannot be read or translated, whatever the error: an answer of one engine must not
 * end the gateway.
 */
export function unfitAnswer(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const how = error instanceof StreamGarbage ? `is broken: ${error.message}` : "has another shape";
  return new ApiError("dispatch.upstream_failed", { message: `the engine's answer ${how}`, cause: error });
}
