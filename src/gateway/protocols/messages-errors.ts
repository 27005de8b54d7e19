import type { ApiError } from "../../api/errors.ts";
import type { ErrorForm } from "../http/error-form.ts";

/**
 * Errors in the form of Anthropic's Messages protocol: `type` at the top level and a type of its own within. Code and
 * details are included, as in every other answer.
 */
export const messagesErrors: ErrorForm = {
  idHeader: "request-id",
  form: "messages",
  body: form,
  event: (failure) => `event: error\ndata: ${JSON.stringify(form(failure))}\n\n`,
};

function form(failure: ApiError): object {
  return { type: "error", error: { ...failure.envelope().error, type: typeOf(failure.status) } };
}

/** The protocol's error types by status, as its reference lists them. */
function typeOf(status: number): string {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}
