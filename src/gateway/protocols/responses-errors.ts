import type { ApiError } from "../../api/errors.ts";
import type { ErrorForm } from "../http/error-form.ts";

/** Errors in the form of OpenAI's Responses protocol. */
export const responsesErrors: ErrorForm = {
  isNumbered: true,
  body: (failure) => failure.envelope(),
  event: errorEvent,
};

/**
 * For streams the protocol's reference documents flat fields, its service sends an `error` object, and SDKs read one or
 * the other: the event carries both.
 */
export function errorEvent(failure: ApiError, sequence: number): string {
  const { error } = failure.envelope();
  const data = {
    type: "error",
    code: error.code,
    message: error.message,
    param: error.param ?? null,
    sequence_number: sequence,
    error: { ...error, param: error.param ?? null },
  };
  return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
}
