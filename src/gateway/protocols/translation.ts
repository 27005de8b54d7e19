import type { ApiError } from "../../api/errors.ts";

/** How a protocol tells its clients that something failed (DECISIONS 18). */
export interface ErrorForm {
  /** The JSON body of an answer whose status is not 2xx. */
  readonly error: (failure: ApiError) => object;
  /** The last event of a stream, its blank line included; nothing may follow it. */
  readonly errorEvent: (failure: ApiError) => string;
}

/**
 * One request of a protocol that its engine does not speak. An object serves one request: the answer depends on what
 * was asked. Which model is meant stays the dispatcher's business: `request` leaves the top-level `model` as the
 * client sent it, and answers carry that name.
 */
export interface Translation extends ErrorForm {
  /** The body that the engine takes. Throws ApiError `dispatch.invalid_request`. */
  request(body: Buffer): Buffer;
  /** The engine's whole JSON answer, with status 2xx. Throws ApiError `dispatch.upstream_failed`. */
  answer(body: Buffer): Buffer;
  /** Absent where the protocol knows no streams. */
  stream?(): StreamTranslation;
}

/** An engine's event stream on its way to the client. */
export interface StreamTranslation {
  /**
   * What to send for a chunk, split anywhere; undefined when there is nothing yet. Throws ApiError when the engine
   * reports a failure or sends what is no stream: send `errorEvent` of it, and no more.
   */
  push(chunk: Buffer): Buffer | undefined;
  /** The engine's stream has ended. Throws ApiError where it ended too early. */
  end(): Buffer | undefined;
}

/** Chat, completions and all that have no form of their own (CONTRACT "Errors"). */
export const envelopeErrors: ErrorForm = {
  error: (failure) => failure.envelope(),
  errorEvent: (failure) => `data: ${JSON.stringify(failure.envelope())}\n\n`,
};
