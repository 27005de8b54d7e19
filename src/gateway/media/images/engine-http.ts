import { ApiError } from "../../../api/errors.ts";
import { ExchangeError, type PassedTrace, type Transport } from "../../../lib/exchange.ts";
import { parseForeign } from "../../../lib/json.ts";
import { AnswerTooLarge, wholeAnswer, type WholeAnswer } from "../../../lib/whole-answer.ts";
import { shortageFailure } from "../../relay/engine-failure.ts";

/** An image engine, and the request that it is called for. */
export interface ImageEngine {
  readonly transport: Transport;
  readonly requestId?: string;
  readonly trace?: PassedTrace | undefined;
}

interface EngineCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  readonly timeoutMs: number;
  /** A longer answer is an error. */
  readonly limitBytes: number;
}

export type EngineAnswer = WholeAnswer;

/**
 * One request to an engine and its complete answer, with any status. Rejects with ApiError
 * `dispatch.upstream_unavailable`, `_timeout` or `_failed`, and with the signal's reason once it is aborted.
 */
export async function callEngine(
  { transport, requestId, trace }: ImageEngine,
  call: EngineCall,
): Promise<EngineAnswer> {
  const { method, path, signal, timeoutMs, limitBytes } = call;
  const body = call.body === undefined ? undefined : [Buffer.from(JSON.stringify(call.body))];
  const request = { method, path, accept: "*/*", contentType: "application/json", body };
  const options = { signal, timeoutMs, limitBytes, requestId, trace };
  return await wholeAnswer(transport, request, options).catch((error: unknown) => {
    if (error instanceof ExchangeError) throw failure(error);
    if (!(error instanceof AnswerTooLarge)) throw error;
    throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer is too large" });
  });
}

function failure(error: ExchangeError): ApiError {
  switch (error.phase) {
    case "connect":
      return new ApiError("dispatch.upstream_unavailable", {
        message: "the image engine does not accept connections",
        cause: error,
      });
    case "timeout":
      return new ApiError("dispatch.upstream_timeout", { message: "the image engine did not answer in time" });
    case "shortage":
      return shortageFailure();
    case "closed":
    case "broken":
      return new ApiError("dispatch.upstream_failed", {
        message: "the image engine closed the connection without a whole answer",
        cause: error,
      });
    default:
      return error.phase satisfies never;
  }
}

/** The JSON of an answer; undefined for invalid JSON, and for more than may be parsed. */
export function jsonOf({ body }: EngineAnswer): unknown {
  return parseForeign(body);
}
