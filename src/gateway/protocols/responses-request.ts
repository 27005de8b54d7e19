import { invalidRequest } from "../../api/problems.ts";
import {
  answeredItemSchema,
  type ResponsesContent,
  type ResponsesItem,
  type ResponsesRequest,
} from "./responses-format.ts";
import type { OwnItems } from "./kept-items.ts";

type Part =
  { readonly type: "text"; readonly text: string } | { readonly type: "image_url"; readonly image_url: object };

/** Fields that only this protocol has: all others pass to the engine unchanged. */
const ownFields = [
  "background",
  "context_management",
  "conversation",
  "include",
  "input",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "messages",
  "metadata",
  "n",
  "parallel_tool_calls",
  "previous_response_id",
  "prompt",
  "prompt_cache_key",
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

/** The same request for a chat engine. Throws ApiError `dispatch.invalid_request`. */
export function chatRequest(request: ResponsesRequest, kept: OwnItems): object {
  const { input, instructions, reasoning, text } = request;
  const rest = Object.entries(request).filter(([name]) => !ownFields.some((own) => own === name));
  const optional = {
    max_tokens: request.max_output_tokens,
    ...toolFields(request),
    response_format: responseFormat(text?.format),
    reasoning_effort: reasoning?.effort,
  };
  const items =
    typeof input === "string" ? [{ type: "message", role: "user", content: input } as const] : wholeItems(input, kept);
  return {
    ...definedOf(rest),
    messages: messagesOf(instructions ?? "", items),
    ...definedOf(Object.entries(optional)),
    ...(request.stream === true ? { stream: true, stream_options: { include_usage: true } } : {}),
  };
}

/** Each item once, as OpenAI requires too: a short request could otherwise become any number of times as long. */
function wholeItems(input: Exclude<ResponsesRequest["input"], string>, kept: OwnItems): ResponsesItem[] {
  const named = new Set<string>();
  return input.map((item, at) => {
    if (item.type !== "item_reference") return item;
    if (named.has(item.id)) throw invalidRequest([{ path: ["input", at], message: "names an item a second time" }]);
    named.add(item.id);
    const found = answeredItemSchema.safeParse(kept.find(item.id)).data;
    if (found !== undefined) return found;
    const message = "names an item that is not stored here (any more): send items whole, as SDKs do with store: false";
    throw invalidRequest([{ path: ["input", at], message }]);
  });
}

function definedOf(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined && value !== null));
}

/** Without tools no field about them is allowed. */
function toolFields({ tools, tool_choice: choice, parallel_tool_calls: isParallel }: ResponsesRequest): object {
  if (tools === null || tools === undefined || tools.length === 0) return {};
  const allowed = typeof choice === "object" && choice?.type === "allowed_tools" ? choice : undefined;
  const named = tools
    .filter(({ name }) => allowed?.tools.some((each) => each.name === name) !== false)
    .map(({ name, description, parameters, strict }) => ({
      type: "function",
      function: definedOf(Object.entries({ name, description, parameters, strict })),
    }));
  if (named.length === 0) return {};
  return { tools: named, tool_choice: toolChoice(choice), parallel_tool_calls: isParallel };
}

function toolChoice(choice: ResponsesRequest["tool_choice"]): unknown {
  if (typeof choice !== "object" || choice === null) return choice;
  return choice.type === "allowed_tools" ? choice.mode : { type: "function", function: { name: choice.name } };
}

function responseFormat(format: NonNullable<ResponsesRequest["text"]>["format"]): object | undefined {
  if (format === null || format === undefined || format.type === "text") return undefined;
  if (format.type === "json_object") return format;
  const { name, schema, description, strict } = format;
  return {
    type: "json_schema",
    json_schema: definedOf(Object.entries({ name, description, schema, strict })),
  };
}

interface AssistantMessage {
  readonly role: "assistant";
  content: string | null;
  tool_calls?: object[];
}

/**
 * Items as messages. A chat has its calls within the assistant's message, the outputs after it as messages of their
 * own, and images of outputs in a user's message after those. Many templates accept one system message, at the
 * beginning: instructions and leading system messages are joined. Reasoning is left out, as in Messages.
 */
function messagesOf(instructions: string, items: readonly ResponsesItem[]): object[] {
  const leading = instructions === "" ? [] : [instructions];
  const messages: object[] = [];
  let assistant: AssistantMessage | undefined;
  let images: Part[] = [];
  const say = (): AssistantMessage => {
    if (assistant === undefined) messages.push((assistant = { role: "assistant", content: null }));
    return assistant;
  };
  const showImages = (): void => {
    if (images.length > 0) messages.push({ role: "user", content: images });
    images = [];
  };
  for (const item of items) {
    if (item.type === "reasoning") continue;
    if (item.type !== "function_call_output") showImages();
    switch (item.type) {
      case "message":
        if (item.role === "assistant") {
          assistant = undefined;
          say().content = textOf(item.content, "");
          break;
        }
        assistant = undefined;
        if (item.role === "user") messages.push({ role: "user", content: contentOf(item.content) });
        else if (messages.length === 0) leading.push(textOf(item.content));
        else messages.push({ role: "system", content: textOf(item.content) });
        break;
      case "function_call":
        (say().tool_calls ??= []).push({
          id: item.call_id,
          type: "function",
          function: { name: item.name, arguments: item.arguments },
        });
        break;
      case "function_call_output":
        assistant = undefined;
        messages.push({ role: "tool", tool_call_id: item.call_id, content: textOf(item.output) });
        images.push(...imagesOf(item.output));
        break;
      default:
        item satisfies never;
    }
  }
  showImages();
  return leading.length === 0 ? messages : [{ role: "system", content: leading.join("\n\n") }, ...messages];
}

function textOf(content: ResponsesContent, between = "\n\n"): string {
  if (typeof content === "string") return content;
  return content
    .flatMap((part) => (part.type === "input_image" ? [] : [part.type === "refusal" ? part.refusal : part.text]))
    .join(between);
}

function imagesOf(content: ResponsesContent): Part[] {
  if (typeof content === "string") return [];
  return content.flatMap((part) => (part.type === "input_image" ? [imageOf(part)] : []));
}

/** One text where all parts are text: many engines accept nothing else. */
function contentOf(content: ResponsesContent): string | Part[] {
  if (typeof content === "string" || content.every(({ type }) => type !== "input_image")) return textOf(content);
  return content.map((part) => {
    if (part.type === "input_image") return imageOf(part);
    return { type: "text", text: part.type === "refusal" ? part.refusal : part.text };
  });
}

function imageOf({
  image_url: url,
  detail,
}: {
  readonly image_url: string;
  readonly detail?: string | null | undefined;
}): Part {
  return { type: "image_url", image_url: typeof detail === "string" ? { url, detail } : { url } };
}
