import type { ApiError } from "../../api/errors.ts";

/** How a protocol reports a failure to its clients. */
export interface ErrorForm {
  /** A further header with the request's id, for the protocol's clients. */
  readonly idHeader?: string;
  /** The name of its bodies in the OpenAPI document; absent: the usual envelope. */
  readonly form?: "messages";
  /** Body of a response that has not begun. */
  body(failure: ApiError): unknown;
  /** The events of the protocol's streams are numbered from 0. */
  readonly isNumbered?: true;
  /**
   * The last event of a stream, blank line included. `sequence`: the number of events before, where they are numbered.
   */
  event(failure: ApiError, sequence: number): string;
}

/** OpenAI's form (CONTRACT "Errors"). */
export const plainErrors: ErrorForm = {
  body: (failure) => failure.envelope(),
  event: (failure) => `data: ${JSON.stringify(failure.envelope())}\n\n`,
};
