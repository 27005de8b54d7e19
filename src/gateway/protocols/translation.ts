import type { AnswerTranslation } from "../relay/answer-format.ts";

/**
 * One request of a protocol that its engine does not speak. An object serves one request: the answer depends on what
 * was asked. Which model is meant stays the dispatcher's business: `request` leaves the top-level `model` as the
 * client sent it, and answers carry that name. How failures are told is the route's `ErrorForm`.
 */
export interface Translation extends AnswerTranslation {
  /** The body that the engine takes. Throws ApiError `dispatch.invalid_request`. */
  request(body: Buffer): Buffer;
}
