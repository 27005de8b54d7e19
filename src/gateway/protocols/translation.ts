import type { AnswerTranslation } from "../relay/answer-format.ts";

/**
 * One request of a protocol that its engine lacks. One object per request: the answer depends on the request.
 * Routing alone decides on the model: `request` leaves the top-level `model` unchanged, and answers carry that name.
 * The route's `ErrorForm` reports failures.
 */
export interface Translation extends AnswerTranslation, RequestTranslation {}

export interface RequestTranslation {
  /** Types of tools and items that the engine does not get; absent: none. */
  readonly leftOut?: readonly string[];
  /** The body for the engine. Throws ApiError `dispatch.invalid_request`. */
  request(body: Buffer): Buffer;
}
