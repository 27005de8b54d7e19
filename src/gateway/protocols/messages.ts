import { z } from "zod";
import { parseExactJson } from "../../lib/json.ts";
import { isRecord } from "../../lib/record.ts";
import { chatAnswerSchema } from "./chat-format.ts";
import { checkRequest, encodeRequest, failed, parseAnswer, parseCount } from "./json.ts";
import { messageId, stopOf, thoughtsOf, usageOf } from "./messages-answer.ts";
import { messagesRequestSchema } from "./messages-format.ts";
import { chatRequest, leftOutOf } from "./messages-request.ts";
import { MessagesStream } from "./messages-stream.ts";
import type { Translation } from "./translation.ts";

/** Anthropic's Messages over an engine with chat completions (DECISIONS 18). */
export class MessagesTranslation implements Translation {
  readonly stream = new MessagesStream();
  leftOut: readonly string[] = [];
  #model = "";
  #isThinking = false;

  request(body: Buffer): Buffer {
    const request = checkRequest(messagesRequestSchema, body);
    const { model, thinking } = request;
    this.#model = model;
    this.#isThinking = thinking?.type === "enabled" || thinking?.type === "adaptive";
    this.stream.expect({ model, isThinking: this.#isThinking });
    this.leftOut = leftOutOf(request);
    return encodeRequest(chatRequest(request));
  }

  answer(body: Buffer): Buffer {
    const parsed = chatAnswerSchema.safeParse(parseAnswer(body)).data;
    const [choice] = parsed?.choices ?? [];
    if (parsed === undefined || choice === undefined) throw failed("the answer is no chat completion");
    const { message, finish_reason: finish, stop_reason: stop } = choice;
    const id = messageId(parsed.id);
    const thoughts = this.#isThinking ? thoughtsOf(message) : "";
    const text = message.content ?? message.refusal ?? "";
    const calls = (message.tool_calls ?? []).map((call, at, { length }) => ({
      type: "tool_use",
      id: call.id || `${id}_${at}`,
      name: call.function.name,
      input: inputOf(call.function.arguments, finish === "length" && at === length - 1),
    }));
    const content = [
      ...(thoughts === "" ? [] : [{ type: "thinking", thinking: thoughts, signature: "" }]),
      ...(text === "" ? [] : [{ type: "text", text }]),
      ...calls,
    ];
    const answer = {
      id,
      type: "message",
      role: "assistant",
      model: this.#model,
      content,
      ...stopOf({ finish, stop, hasToolCalls: calls.length > 0 }),
      usage: usageOf(parsed.usage),
    };
    return Buffer.from(JSON.stringify(answer));
  }
}

/** `mayBeCut`: the answer ended at its limit of tokens, within this call; `stop_reason` reports that to the client. */
function inputOf(text: string, mayBeCut: boolean): object {
  const input = text === "" ? {} : parseExactJson(text);
  if (isRecord(input)) return input;
  if (input === undefined && mayBeCut) return {};
  throw failed("a tool call of the answer has no JSON object as input");
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
    return Buffer.from(JSON.stringify({ input_tokens: parseCount(body) }));
  }
}
