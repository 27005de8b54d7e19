import { chatAnswerSchema } from "./chat-format.ts";
import { responsesRequestSchema } from "./responses-format.ts";
import { customInput } from "./custom-input.ts";
import { checkRequest, encodeRequest, failed, parseAnswer, parseCount } from "./json.ts";
import type { OwnItems } from "./kept-items.ts";
import { thoughtsOf } from "./messages-answer.ts";
import {
  callItem,
  messageItem,
  messagePart,
  newId,
  reasoningItem,
  ResponseShell,
  statusOf,
} from "./responses-answer.ts";
import { chatRequest } from "./responses-request.ts";
import { ResponsesStream } from "./responses-stream.ts";
import { ChatTools } from "./responses-tools.ts";
import type { Translation } from "./translation.ts";

/** OpenAI's Responses over an engine with chat completions. */
export class ResponsesTranslation implements Translation {
  readonly #shell = new ResponseShell();
  readonly #kept: OwnItems;
  readonly stream: ResponsesStream;
  #isKept = false;
  #tools = new ChatTools([]);
  leftOut: readonly string[] = [];

  /** `kept`: the items that the client can name, and the store for those of this answer unless it says `store: false`. */
  constructor(kept: OwnItems) {
    this.#kept = kept;
    this.stream = new ResponsesStream(
      this.#shell,
      (name) => this.#tools.called(name),
      (item) => this.#keep(item),
    );
  }

  request(body: Buffer): Buffer {
    const request = checkRequest(responsesRequestSchema, body);
    this.#shell.expect(request);
    this.#isKept = request.store !== false;
    const { input, tools } = request;
    const later = typeof input === "string" ? [] : input.flatMap((item) => (item.kind === "tools" ? item.tools : []));
    this.#tools = new ChatTools([...(tools ?? []), ...later]);
    const { chat, others } = chatRequest(request, { tools: this.#tools, kept: this.#kept });
    this.leftOut = [...this.#tools.others, ...others];
    return encodeRequest(chat);
  }

  answer(body: Buffer): Buffer {
    const parsed = chatAnswerSchema.safeParse(parseAnswer(body)).data;
    const [choice] = parsed?.choices ?? [];
    if (parsed === undefined || choice === undefined) throw failed("the answer is no chat completion");
    const { message, finish_reason: finish } = choice;
    const thoughts = thoughtsOf(message);
    const content = [
      ...(message.content ? [messagePart("output_text", message.content)] : []),
      ...(message.refusal ? [messagePart("refusal", message.refusal)] : []),
    ];
    const calls = message.tool_calls ?? [];
    const last = statusOf(finish);
    const output = [
      ...(thoughts === "" ? [] : [reasoningItem(`rs_${newId()}`, "completed", thoughts)]),
      ...(content.length === 0
        ? []
        : [messageItem(`msg_${newId()}`, calls.length === 0 ? last : "completed", content)]),
      ...calls.map(({ id, function: called }, at) => {
        const own = newId();
        const status = at === calls.length - 1 ? last : "completed";
        const tool = this.#tools.called(called.name);
        const text = tool.type === "custom" ? customInput(called.arguments) : called.arguments;
        return callItem(status, { id: own, callId: id || `call_${own}`, tool, text });
      }),
    ];
    for (const item of output) this.#keep(item);
    return Buffer.from(JSON.stringify(this.#shell.ended(finish, output, parsed.usage)));
  }

  #keep(item: object): void {
    if (this.#isKept) this.#kept.keep(item);
  }
}

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
    return Buffer.from(JSON.stringify({ object: "response.input_tokens", input_tokens: parseCount(body) }));
  }
}
