import { ApiError } from "../../api/errors.ts";
import { errorCode } from "../../lib/error-code.ts";
import type { ExchangeError } from "../../lib/exchange.ts";
import { engineRefusal, engineWords, shortageFailure } from "../relay/engine-failure.ts";

/** A provider's answer without success. The body is masked already. */
export interface Refusal {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: Buffer;
}

/** Seconds, or a date (RFC 9110, 10.2.3). */
const retryAfterPattern = /^(\d{1,7}|[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT)$/;

/** The header's value, if valid. */
export function soundRetryAfter(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" && retryAfterPattern.test(value) ? value : undefined;
}

/** How a request to a provider ended, as a short word or the provider's status: for metrics. */
export type Outcome = string;

/** Whether a retry is useful, before the first byte for the client (RESOURCES, `retries`). */
export function canBeRetried(status: number): boolean {
  return status === 502 || status === 503 || status === 504;
}

/**
 * The client's error (CONTRACT "Errors" and "Model resolution"): the provider's own 4xx, except about our key, and a
 * 5xx for a client's mistake as a 400; any other is a failure of the backend, of which the client gets only the kind.
 */
export function refusalFailure(upstream: string, refusal: Refusal): ApiError {
  const failure = failureOf(upstream, refusal);
  failure.engineText = engineWords(refusal.status, refusal.body);
  return failure;
}

function failureOf(upstream: string, { status, retryAfter, body }: Refusal): ApiError {
  const headers = retryAfter === undefined ? {} : { "retry-after": retryAfter };
  const details = { upstream };
  if (status === 401 || status === 403) {
    const message = `upstream ${upstream} refused Berth's own credentials (${status})`;
    return new ApiError("dispatch.upstream_failed", { message, details });
  }
  const refusal = engineRefusal(status, body, undefined);
  if (refusal.status < 500) {
    const { message, details: said, type, familiar } = refusal;
    const words = message === `the engine answered ${status}` ? `upstream ${upstream} answered ${status}` : message;
    const options = { status: refusal.status, headers, message: words, type, familiar, ...(said && { details: said }) };
    return new ApiError("dispatch.rejected", options);
  }
  const message = `upstream ${upstream} answered ${status}`;
  if (status === 503) return new ApiError("dispatch.upstream_unavailable", { message, headers, details });
  if (status === 504) return new ApiError("dispatch.upstream_timeout", { message, details });
  return new ApiError("dispatch.upstream_failed", { message, details });
}

/**
 * Names the kind of failure and the system's code for it, never a host. The error itself is dropped: it may hold the
 * provider's output. `canBeRetried`: the connection failed or closed before any answer; not for a time-out, since the
 * provider may be at work.
 */
export function connectionFailure(
  upstream: string,
  error: ExchangeError,
  isAnswering: boolean,
): { failure: ApiError; outcome: Outcome; canBeRetried: boolean } {
  const cause = error.cause instanceof Error ? error.cause : error;
  const code = errorCode(cause) ?? cause.name;
  const details = { upstream };
  switch (error.phase) {
    case "timeout": {
      const message = `upstream ${upstream} was silent for too long`;
      const failure = new ApiError("dispatch.upstream_timeout", { message, details });
      return { failure, outcome: "timeout", canBeRetried: false };
    }
    case "shortage":
      return { failure: shortageFailure(), outcome: "shortage", canBeRetried: true };
    case "connect": {
      const message = `upstream ${upstream} cannot be reached (${code})`;
      const failure = new ApiError("dispatch.upstream_unavailable", { message, details });
      return { failure, outcome: "unreachable", canBeRetried: true };
    }
    case "closed":
    case "broken": {
      const isGarbage = cause.name === "HTTPParserError";
      const message = isAnswering
        ? `upstream ${upstream} broke off within its answer (${code})`
        : isGarbage
          ? `the answer of upstream ${upstream} is no HTTP`
          : `upstream ${upstream} closed the connection without an answer (${code})`;
      const failure = new ApiError("dispatch.upstream_failed", { message, details });
      return { failure, outcome: "broken", canBeRetried: !isAnswering && !isGarbage };
    }
    default:
      return error.phase satisfies never;
  }
}

/** A provider that requests a longer pause is not retried automatically. */
export const longestPauseMs = 5000;

/** The pause before the next attempt. Half of it is random, so that requests that failed together are not repeated together. */
export function retryPauseMs(tries: number, backoffMs: number): number {
  return Math.min(longestPauseMs, backoffMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
}

/** The pause that a `retry-after` header requests, in seconds or until a date; 0 without one. */
export function requestedPauseMs(retryAfter = ""): number {
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - Date.now();
  return ms > 0 ? ms : 0;
}
