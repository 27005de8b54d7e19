import { ApiError } from "../../api/errors.ts";
import { errorCode, isShortage } from "../../lib/error-code.ts";
import { engineRefusal, shortageFailure } from "../relay/engine-failure.ts";

/** What a provider answered when it was not 2xx. The body is masked already. */
export interface Refusal {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: Buffer;
}

/** Seconds, or a date (RFC 9110, 10.2.3). */
const retryAfterPattern = /^(\d{1,7}|[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} [\d:]{8} GMT)$/;

/** The header's value where it says what it may. */
export function soundRetryAfter(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" && retryAfterPattern.test(value) ? value : undefined;
}

/** How a request to a provider ended, as a short word or the provider's status: for metrics. */
export type Outcome = string;

/** Worth another try, as long as nothing was passed on (RESOURCES, `retries`). */
export function isRetried(status: number): boolean {
  return status === 502 || status === 503 || status === 504;
}

/**
 * What the client learns (CONTRACT "Errors" and "Model resolution"): a 4xx as the provider said it, apart from what is
 * about our key, and a 5xx that means the client's mistake as a 400; anything else is a failure behind us, of which the
 * client learns no more than the kind.
 */
export function refusalFailure(upstream: string, { status, retryAfter, body }: Refusal): ApiError {
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
    const told = { status: refusal.status, headers, message: words, type, familiar, ...(said && { details: said }) };
    return new ApiError("dispatch.rejected", told);
  }
  const message = `upstream ${upstream} answered ${status}`;
  if (status === 503) return new ApiError("dispatch.upstream_unavailable", { message, headers, details });
  if (status === 504) return new ApiError("dispatch.upstream_timeout", { message, details });
  return new ApiError("dispatch.upstream_failed", { message, details });
}

/** How far a request got before its connection failed. */
export type Progress = "connecting" | "waiting" | "answering";

/**
 * Names the kind of failure and the system's code for it, never a host. The error itself goes nowhere: it may hold
 * what the provider said. `isRetried`: the connection failed or closed before any answer; a time-out is no such case,
 * since the provider may be at work.
 */
export function connectionFailure(
  upstream: string,
  error: Error,
  progress: Progress,
): { failure: ApiError; outcome: Outcome; isRetried: boolean } {
  const code = errorCode(error) ?? error.name;
  const details = { upstream };
  if (code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT") {
    const message = `upstream ${upstream} was silent for too long`;
    return {
      failure: new ApiError("dispatch.upstream_timeout", { message, details }),
      outcome: "timeout",
      isRetried: false,
    };
  }
  const isGarbage = error.name === "HTTPParserError";
  switch (progress) {
    case "connecting": {
      if (isShortage(error)) return { failure: shortageFailure(), outcome: "shortage", isRetried: true };
      const message = `upstream ${upstream} cannot be reached (${code})`;
      const failure = new ApiError("dispatch.upstream_unavailable", { message, details });
      return { failure, outcome: "unreachable", isRetried: true };
    }
    case "waiting": {
      const message = isGarbage
        ? `the answer of upstream ${upstream} is no HTTP`
        : `upstream ${upstream} closed the connection without an answer (${code})`;
      const failure = new ApiError("dispatch.upstream_failed", { message, details });
      return { failure, outcome: "broken", isRetried: !isGarbage };
    }
    case "answering": {
      const message = `upstream ${upstream} broke off within its answer (${code})`;
      return {
        failure: new ApiError("dispatch.upstream_failed", { message, details }),
        outcome: "broken",
        isRetried: false,
      };
    }
    default:
      return progress satisfies never;
  }
}
