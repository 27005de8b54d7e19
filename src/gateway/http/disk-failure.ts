import { dirname } from "node:path";
import { ApiError } from "../../api/errors.ts";
import { isNoSpace } from "../../lib/disk-space.ts";
import { errorCode } from "../../lib/error-code.ts";

const forbidden: ReadonlySet<string> = new Set(["EROFS", "EPERM", "EACCES"]);

/** The error for a client when a file could not be written: a full disk may have room again soon. */
export function diskFailure(error: unknown, purpose: string): ApiError {
  if (!isNoSpace(error)) return new ApiError("system.internal", { cause: error });
  return full(error, `there is no disk space to ${purpose}`);
}

/** Like `diskFailure`, for the management API: it also names the directory whose disk is full, or a forbidden file. */
export function managementFailure(error: unknown, purpose: string): ApiError {
  const path = error instanceof Error && "path" in error && typeof error.path === "string" ? error.path : undefined;
  if (path === undefined) return diskFailure(error, purpose);
  const directory = dirname(path);
  const code = errorCode(error) ?? "";
  if (forbidden.has(code)) {
    const message = `${path} cannot be read or written (${code}): the file system is read-only, or the service's user has no right to it`;
    return new ApiError("system.internal", { message, cause: error, details: { reason: "NoAccess", path } });
  }
  if (!isNoSpace(error)) return diskFailure(error, purpose);
  return full(error, `there is no disk space to ${purpose}: make room on the disk of ${directory}`, {
    reason: "NoSpace",
    directory,
  });
}

function full(cause: unknown, message: string, details?: Readonly<Record<string, unknown>>): ApiError {
  const headers = { "retry-after": "30" };
  return new ApiError("system.overloaded", { message, headers, cause, ...(details === undefined ? {} : { details }) });
}
