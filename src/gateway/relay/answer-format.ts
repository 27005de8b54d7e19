import type { ApiError } from "../../api/errors.ts";

interface TranslatedStream {
  push(chunk: Buffer): Buffer | undefined;
  end(): Buffer | undefined;
  /** The events that tell of a failure, where they depend on what was sent before; absent: as its route has them. */
  fail?(failure: ApiError): string | undefined;
  /** Its client has left. */
  abandon?(): void;
}

/** Turns an engine's answer into that of the protocol the client speaks. One object per request. */
export interface AnswerTranslation {
  /** A whole JSON answer. Throws when it is not what the engine should have said. */
  answer(body: Buffer): Buffer;
  /** Of what `answer` gives; absent or undefined: the engine's own. */
  readonly contentType?: string | undefined;
  /**
   * An event stream, split anywhere; undefined: nothing to send yet. Both throw ApiError when the engine failed.
   * Absent: the protocol has no streams.
   */
  readonly stream?: TranslatedStream;
  /** A refusal that means more than its status says; undefined: told as any other. */
  refusal?(status: number, body: Buffer): ApiError | undefined;
}

/** How an answer is read. */
export interface AnswerFormat {
  /** Its stream begins with the delta that carries the role. */
  readonly isChat?: boolean;
  /** The end of a whole event stream; absent: a finish reason or `[DONE]`. */
  readonly endMark?: RegExp;
  /** Absent: 4 MiB. A longer event breaks the stream. */
  readonly eventLimitBytes?: number;
  readonly translation?: AnswerTranslation;
}
