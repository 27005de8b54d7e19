import { invalidRequest } from "../../api/problems.ts";
import { mostParsedBytes, parseJson } from "../../lib/json.ts";
import { definedFields } from "../../lib/record.ts";
import { contentOf, mediaOf, textOf, type ChatPart } from "./chat-content.ts";
import { withOneSystem, type ChatMessage } from "./chat-messages.ts";
import type { OwnItems } from "./kept-items.ts";
import type { ResponsesRequest } from "./responses-format.ts";
import { inputItemSchema, type ResponsesItem } from "./responses-input.ts";
import type { ChatTools } from "./responses-tools.ts";

/** Fields that only this protocol has: all others pass to the engine unchanged. */
const ownFields = [
  "access_programs",
  "background",
  "client_metadata",
  "context_management",
  "conversation",
  "image",
  "include",
  "input",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "messages",
  "metadata",
  "moderation",
  "n",
  "parallel_tool_calls",
  "previous_response_id",
  "prompt",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "reasoning",
  "response_format",
  "safety_identifier",
  "service_tier",
  "store",
  "stream",
  "stream_options",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "truncation",
  "user",
] as const;

/** A request as a chat, and the types of items that the chat has no place for. */
interface ChatRequest {
  readonly chat: object;
  readonly others: readonly string[];
}

/** The same request for a chat engine. Throws ApiError `dispatch.invalid_request`. */
export function chatRequest(
  request: ResponsesRequest,
  { tools, kept }: { readonly tools: ChatTools; readonly kept: OwnItems },
): ChatRequest {
  const { input, instructions, reasoning, text } = request;
  const rest = Object.fromEntries(Object.entries(request).filter(([name]) => !ownFields.some((own) => own === name)));
  const optional = {
    max_tokens: request.max_output_tokens,
    ...tools.fields(request.tool_choice, request.parallel_tool_calls),
    response_format: responseFormat(text?.format),
    reasoning_effort: reasoning?.effort,
  };
  const items =
    typeof input === "string" ? [{ kind: "message", role: "user", content: input } as const] : wholeItems(input, kept);
  const messages = messagesOf(instructions ?? "", items, tools);
  const others = [...new Set(items.flatMap((item) => (item.kind === "other" ? [item.type] : [])))];
  if (messages.length === 0) {
    const found = others.length === 0 ? "reasoning" : others.join(", ");
    throw invalidRequest([{ path: ["input"], message: `holds nothing that can be passed to this engine: ${found}` }]);
  }
  const chat = {
    ...definedFields(rest),
    messages,
    ...definedFields(optional),
    ...(request.stream === true ? { stream: true, stream_options: { include_usage: true } } : {}),
  };
  return { chat, others };
}

/**
 * Each item once, as OpenAI requires too, and no more than a body may hold: a short request could otherwise become any
 * number of times as long.
 */
function wholeItems(input: readonly ResponsesItem[], kept: OwnItems): ResponsesItem[] {
  const named = new Set<string>();
  let bytes = 0;
  return input.map((item, at) => {
    if (item.kind !== "reference") return item;
    if (named.has(item.id)) throw invalidRequest([{ path: ["input", at], message: "names an item a second time" }]);
    named.add(item.id);
    const json = kept.find(item.id);
    bytes += json?.length ?? 0;
    if (bytes > mostParsedBytes)
      throw invalidRequest([{ path: ["input", at], message: "names more than 16 MiB in all" }]);
    const found = json === undefined ? undefined : inputItemSchema.safeParse(parseJson(json)).data;
    if (found !== undefined) return found;
    const message = "names an item that is not stored here (any more): send items whole, as SDKs do with store: false";
    throw invalidRequest([{ path: ["input", at], message }]);
  });
}

function responseFormat(format: NonNullable<ResponsesRequest["text"]>["format"]): object | undefined {
  if (format === null || format === undefined || format.type === "text") return undefined;
  if (format.type === "json_object") return format;
  const { name, schema, description, strict } = format;
  return { type: "json_schema", json_schema: definedFields({ name, description, schema, strict }) };
}

/** The messages that stand together: a chat has the results of calls directly after the message with the calls. */
class Turn {
  readonly messages: ChatMessage[];
  /** Images of results, which are texts in a chat: these follow in a message of the user. */
  readonly media: ChatPart[] = [];

  constructor(...messages: ChatMessage[]) {
    this.messages = messages;
  }

  all(): ChatMessage[] {
    return this.media.length === 0 ? this.messages : [...this.messages, { role: "user", content: this.media }];
  }
}

interface AssistantMessage {
  readonly role: "assistant";
  content: string | null;
  tool_calls?: object[];
}

/** A message of the assistant with its calls. */
class AssistantTurn extends Turn {
  readonly #message: AssistantMessage;
  /** The ids of calls without a result yet. */
  readonly #unanswered = new Set<string>();

  constructor() {
    const message: AssistantMessage = { role: "assistant", content: null };
    super(message);
    this.#message = message;
  }

  get hasUnanswered(): boolean {
    return this.#unanswered.size > 0;
  }

  say(text: string): void {
    const { content } = this.#message;
    this.#message.content = content === null || content === "" ? text : `${content}\n\n${text}`;
  }

  call(id: string, name: string, text: string): void {
    const call = { id, type: "function", function: { name, arguments: text } };
    (this.#message.tool_calls ??= []).push(call);
    this.#unanswered.add(id);
  }

  answered(id: string): void {
    this.#unanswered.delete(id);
  }
}

/** Items as messages. Reasoning is left out, as in Messages. */
function messagesOf(instructions: string, items: readonly ResponsesItem[], tools: ChatTools): ChatMessage[] {
  const turns = instructions === "" ? [] : [new Turn({ role: "system", content: instructions })];
  /** By the id of a call. */
  const callers = new Map<string, AssistantTurn>();
  /** The turn that further calls of the assistant belong to, and its texts while a call has no result. */
  let assistant: AssistantTurn | undefined;
  const begin = (): AssistantTurn => {
    assistant = new AssistantTurn();
    turns.push(assistant);
    return assistant;
  };
  for (const item of items) {
    switch (item.kind) {
      case "message":
        if (item.role === "assistant") {
          (assistant?.hasUnanswered === true ? assistant : begin()).say(textOf(item.content, ""));
          break;
        }
        assistant = undefined;
        turns.push(
          new Turn(
            item.role === "user"
              ? { role: "user", content: contentOf(item.content) }
              : { role: "system", content: textOf(item.content) },
          ),
        );
        break;
      case "call": {
        const turn = assistant ?? begin();
        turn.call(item.id, tools.nameOf(item.tool), item.arguments);
        callers.set(item.id, turn);
        break;
      }
      case "output": {
        const caller = callers.get(item.id);
        const turn = caller ?? new Turn();
        if (caller === undefined) turns.push(turn);
        turn.messages.push({ role: "tool", tool_call_id: item.id, content: textOf(item.content) });
        turn.media.push(...mediaOf(item.content));
        caller?.answered(item.id);
        if (assistant?.hasUnanswered !== true) assistant = undefined;
        break;
      }
      case "reference":
      case "tools":
      case "reasoning":
      case "other":
        break;
      default:
        item satisfies never;
    }
  }
  return withOneSystem(turns.flatMap((turn) => turn.all()));
}
