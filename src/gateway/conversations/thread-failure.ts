import { ApiError, type ApiErrorOptions, type ErrorCode } from "../../api/errors.ts";
import { errorCode } from "../../lib/error-code.ts";

/** An error that can pass between threads: our own message, or the file system's code. */
export type Failure =
  | { readonly kind: "api"; readonly code: ErrorCode; readonly options: Omit<ApiErrorOptions, "cause"> }
  | {
      readonly kind: "other";
      readonly message: string;
      readonly stack?: string;
      readonly code?: string;
      readonly path?: string;
    };

/** The part of an error that passes to another thread. */
export function failureOf(error: unknown): Failure {
  if (error instanceof ApiError) {
    const { code, message, status, details, headers } = error;
    return { kind: "api", code, options: { message, status, headers, ...(details === undefined ? {} : { details }) } };
  }
  if (!(error instanceof Error)) return { kind: "other", message: String(error) };
  const code = errorCode(error);
  const { message, stack } = error;
  return {
    kind: "other",
    message,
    ...(stack === undefined ? {} : { stack }),
    ...(code === undefined ? {} : { code }),
    ...("path" in error && typeof error.path === "string" ? { path: error.path } : {}),
  };
}

/** The error of which another thread tells. */
export function errorOf(failure: Failure): Error {
  if (failure.kind === "api") return new ApiError(failure.code, failure.options);
  const { kind: _, message, ...rest } = failure;
  return Object.assign(new Error(message), rest);
}
