import type { ErrorForm } from "../relay/error-form.ts";

/**
 * Errors as OpenAI's Responses protocol has them. Within a stream its reference documents flat fields, its service
 * sends an `error` object, and SDKs read one or the other: the event carries both. The sequence number is required by
 * the event's schema, but a relay does not count what it passes on.
 */
export const responsesErrors: ErrorForm = {
  body: (failure) => failure.envelope(),
  event(failure) {
    const { error } = failure.envelope();
    const data = {
      type: "error",
      code: error.code,
      message: error.message,
      param: null,
      sequence_number: 0,
      error: { ...error, param: null },
    };
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
  },
};
