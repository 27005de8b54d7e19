import { ApiError } from "../api/errors.ts";
import { errorCode } from "../lib/error-code.ts";

/** What a client learns when a file could not be written: a full disk may have room again soon. */
export function diskFailure(error: unknown, purpose: string): ApiError {
  const code = errorCode(error);
  if (code !== "ENOSPC" && code !== "EDQUOT") return new ApiError("system.internal", { cause: error });
  return new ApiError("system.overloaded", {
    message: `there is no disk space to ${purpose}`,
    headers: { "retry-after": "30" },
    cause: error,
  });
}
