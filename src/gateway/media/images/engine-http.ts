import { ApiError } from "../../../api/errors.ts";
import type { SendOptions, Transport } from "../../../lib/exchange.ts";
import { parseForeign } from "../../../lib/json.ts";
import { AnswerTooLarge, wholeAnswer, type WholeAnswer } from "../../../lib/whole-answer.ts";

/** An image engine, and the request that it is called for. */
export interface ImageEngine extends Omit<SendOptions, "timeouts" | "isOnce"> {
  readonly transport: Transport;
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
 * One request to an engine and its complete answer, with any status. Rejects with ExchangeError, with ApiError
 * `dispatch.upstream_failed` for an answer that is too large, and with the signal's reason once it is aborted.
 */
export async function callEngine({ transport, ...sent }: ImageEngine, call: EngineCall): Promise<EngineAnswer> {
  const { method, path, signal, timeoutMs, limitBytes } = call;
  const body = call.body === undefined ? undefined : [Buffer.from(JSON.stringify(call.body))];
  const request = { method, path, accept: "*/*", body };
  const options = { ...sent, signal, timeoutMs, limitBytes };
  return await wholeAnswer(transport, request, options).catch((error: unknown) => {
    if (!(error instanceof AnswerTooLarge)) throw error;
    throw new ApiError("dispatch.upstream_failed", { message: "the image engine's answer is too large" });
  });
}

/** The JSON of an answer; undefined for invalid JSON, and for more than may be parsed. */
export function jsonOf({ body }: EngineAnswer): unknown {
  return parseForeign(body);
}
