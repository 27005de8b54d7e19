import { errorCode, errorMessage } from "../lib/error-code.ts";
import { parseJson } from "../lib/json.ts";
import { isRecord } from "../lib/record.ts";

/** An answer of the API server other than success: a `Status` object, or a proxy's text. */
export class ApiError extends Error {
  /** The HTTP status. */
  readonly status: number;
  /** `NotFound`, `Conflict`, `Expired`, `Forbidden`, `Invalid` …; empty where the answer has none. */
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;
  /** The namespace is being deleted, or is gone: nobody can make an object in it before it is made again. */
  readonly isNamespaceEnding: boolean;

  constructor(
    status: number,
    reason: string,
    message: string,
    options: { readonly retryAfterSeconds?: number | undefined; readonly isNamespaceEnding?: boolean } = {},
  ) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.isNamespaceEnding = options.isNamespaceEnding === true;
  }
}

/** No answer came: the connection failed, or time ran out. */
export class ApiUnreachable extends Error {
  constructor(server: string, options: ErrorOptions) {
    // Of several addresses that were tried, the error has no message.
    const why = errorMessage(options.cause) || (errorCode(options.cause) ?? "");
    super(`the API server at ${server} does not answer: ${why}`, options);
    this.name = "ApiUnreachable";
  }
}

export function apiErrorOf(status: number, body: string, retryAfter: string | undefined): ApiError {
  const retryAfterSeconds = retryAfterOf(retryAfter);
  const parsed = parseJson(body);
  if (isRecord(parsed) && parsed["kind"] === "Status") return statusError(parsed, status, retryAfterSeconds);
  return new ApiError(status, "", body.slice(0, 500) || `HTTP ${status}`, { retryAfterSeconds });
}

/** Seconds; undefined without the header, or where it is a date. */
export function retryAfterOf(header: string | undefined): number | undefined {
  const seconds = Number(header);
  return header !== undefined && Number.isFinite(seconds) ? seconds : undefined;
}

/** A `Status` object, as the body of an answer or as the object of an `ERROR` event. */
export function statusError(
  value: Readonly<Record<string, unknown>>,
  fallback = 500,
  retryAfterSeconds?: number,
): ApiError {
  const { code, reason, message, details } = value;
  const status = typeof code === "number" ? code : fallback;
  const text = typeof message === "string" && message !== "" ? message : `HTTP ${status}`;
  return new ApiError(status, typeof reason === "string" ? reason : "", text, {
    retryAfterSeconds,
    isNamespaceEnding: tellsOfEndingNamespace(status, details),
  });
}

/**
 * As the API server's NamespaceLifecycle answers who makes an object there
 * (https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go).
 */
function tellsOfEndingNamespace(status: number, details: unknown): boolean {
  if (!isRecord(details)) return false;
  if (status === 404) return details["kind"] === "namespaces";
  const causes: readonly unknown[] = Array.isArray(details["causes"]) ? details["causes"] : [];
  return status === 403 && causes.some((cause) => isRecord(cause) && cause["reason"] === "NamespaceTerminating");
}

export function isStatus(error: unknown, ...statuses: readonly number[]): boolean {
  return error instanceof ApiError && statuses.includes(error.status);
}
