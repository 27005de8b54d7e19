import { errorCode, errorMessage } from "../error-code.ts";
import { parseJson } from "../json.ts";
import { isRecord } from "../record.ts";

/** An answer of the API server other than success: a `Status` object, or a proxy's text. */
export class ApiError extends Error {
  /** The HTTP status. */
  readonly status: number;
  /** `NotFound`, `Conflict`, `Expired`, `Forbidden`, `Invalid` …; empty where the answer has none. */
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, reason: string, message: string, retryAfterSeconds?: number) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.reason = reason;
    this.retryAfterSeconds = retryAfterSeconds;
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
  const wait = retryAfterOf(retryAfter);
  const parsed = parseJson(body);
  if (isRecord(parsed) && parsed["kind"] === "Status") return statusError(parsed, status, wait);
  return new ApiError(status, "", body.slice(0, 500) || `HTTP ${status}`, wait);
}

/** Seconds; undefined without the header, or where it is a date. */
export function retryAfterOf(header: string | undefined): number | undefined {
  const seconds = Number(header);
  return header !== undefined && Number.isFinite(seconds) ? seconds : undefined;
}

/** A `Status` object, as the body of an answer or as the object of an `ERROR` event. */
export function statusError(value: Readonly<Record<string, unknown>>, fallback = 500, wait?: number): ApiError {
  const { code, reason, message } = value;
  const status = typeof code === "number" ? code : fallback;
  const text = typeof message === "string" && message !== "" ? message : `HTTP ${status}`;
  return new ApiError(status, typeof reason === "string" ? reason : "", text, wait);
}

export function isStatus(error: unknown, ...statuses: readonly number[]): boolean {
  return error instanceof ApiError && statuses.includes(error.status);
}
