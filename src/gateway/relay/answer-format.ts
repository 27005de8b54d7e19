import type { ApiError } from "../../api/errors.ts";

interface TranslatedStream {
  push(chunk: Buffer): Buffer | undefined;
  end(): Buffer | undefined;
  /** The events that report a failure, where they depend on earlier events; absent: the route's own. */
  fail?(failure: ApiError): string | undefined;
  /** The client has disconnected. */
  abandon?(): void;
}

/** Translates an engine's answer into the client's protocol. One object per request. */
export interface AnswerTranslation {
  /** A whole JSON answer. Throws for an invalid answer of the engine. */
  answer(body: Buffer): Buffer;
  /** The content type of `answer`; absent or undefined: the engine's own. */
  readonly contentType?: string | undefined;
  /**
   * An event stream, split anywhere; undefined: nothing to send yet. Both throw ApiError when the engine failed.
   * Absent: the protocol has no streams.
   */
  readonly stream?: TranslatedStream;
  /** A refusal with more meaning than its status; undefined: reported by its status. */
  refusal?(status: number, body: Buffer): ApiError | undefined;
}

/** How an answer is parsed. */
export interface AnswerFormat {
  /** The stream of the answer begins with the delta that carries the role. */
  readonly isChat?: boolean;
  /** The end of a complete event stream; absent: a finish reason or `[DONE]`. */
  readonly endMark?: RegExp;
  /** Absent: 4 MiB. A longer event breaks the stream. */
  readonly eventLimitBytes?: number;
  readonly translation?: AnswerTranslation;
}
