import type { ErrorForm } from "./translation.ts";

/**
 * Errors as OpenAI's Responses protocol has them. Within a stream its reference documents flat fields, its service
 * sends an `error` object, and SDKs read one or the other: the event carries both. The sequence number is required by
 * the event's schema, but a relay does not count what it passes on.
 */
export const responsesErrors: ErrorForm = {
  error: (failure) => failure.envelope(),
  errorEvent(failure) {
    const { error } = failure.envelope();
    const event = {
      type: "error",
      code: error.code,
      message: error.message,
      param: null,
      sequence_number: 0,
      error: { ...error, param: null },
    };
    return `event: error\ndata: ${JSON.stringify(event)}\n\n`;
  },
};
