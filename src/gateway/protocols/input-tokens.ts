import { z } from "zod";
import { ApiError } from "../../api/errors.ts";
import { isRecord } from "../../lib/record.ts";
import { checkRequest, encodeRequest, parseAnswer } from "./json.ts";
import type { OwnItems } from "./kept-items.ts";
import { messagesRequestSchema } from "./messages-format.ts";
import { chatRequest, leftOutOf } from "./messages-request.ts";
import { ResponsesTranslation } from "./responses.ts";
import type { Translation } from "./translation.ts";

/** The tokens of a Responses request, counted as those of its translation into a chat. */
export class ResponsesCount implements Translation {
  readonly #responses: ResponsesTranslation;

  constructor(kept: OwnItems) {
    this.#responses = new ResponsesTranslation(kept);
  }

  get leftOut(): readonly string[] {
    return this.#responses.leftOut;
  }

  request(body: Buffer): Buffer {
    return this.#responses.request(body);
  }

  answer(body: Buffer): Buffer {
    return Buffer.from(JSON.stringify({ object: "response.input_tokens", input_tokens: countIn(body) }));
  }
}

const messagesCountSchema = messagesRequestSchema.extend({ max_tokens: z.int().optional() });

/** The tokens of a Messages request, counted as those of its translation into a chat. */
export class MessagesCount implements Translation {
  leftOut: readonly string[] = [];

  request(body: Buffer): Buffer {
    const request = checkRequest(messagesCountSchema, body);
    this.leftOut = leftOutOf(request);
    return encodeRequest(chatRequest(request));
  }

  answer(body: Buffer): Buffer {
    return Buffer.from(JSON.stringify({ input_tokens: countIn(body) }));
  }
}

function countIn(body: Buffer): number {
  const answer = parseAnswer(body);
  const count = isRecord(answer) ? answer["input_tokens"] : undefined;
  if (typeof count !== "number")
    throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer is no count" });
  return count;
}
