import type { ApiError } from "../../api/errors.ts";

/** How a protocol tells its clients of a failure. */
export interface ErrorForm {
  /** Another header that tells the request's id to the protocol's clients. */
  readonly idHeader?: string;
  /** What the OpenAPI document calls its bodies; absent: as everywhere. */
  readonly form?: "messages";
  /** Body of a response that has not begun. */
  body(failure: ApiError): unknown;
  /** Its events have numbers, from 0 on. */
  readonly isNumbered?: true;
  /** The last event of a stream, blank line included. `sequence`: how many went before, where they are numbered. */
  event(failure: ApiError, sequence: number): string;
}

/** OpenAI's form (CONTRACT "Errors"). */
export const plainErrors: ErrorForm = {
  body: (failure) => failure.envelope(),
  event: (failure) => `data: ${JSON.stringify(failure.envelope())}\n\n`,
};
