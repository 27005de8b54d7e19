import { invalidRequest } from "../../api/problems.ts";
import { contentOf, mediaOf, textOf, type ChatPart } from "./chat-content.ts";
import { withOneSystem, type ChatMessage } from "./chat-messages.ts";
import { encodeRequest } from "./json.ts";
import { joinedTexts, type AssistantBlock, type MessagesRequest, type UserBlock } from "./messages-format.ts";

/** Types of tools that run in Anthropic's service, and of blocks about them: a chat is asked without these. */
export function leftOutOf({ tools, messages }: Pick<MessagesRequest, "tools" | "messages">): readonly string[] {
  const kinds = (tools ?? []).flatMap((tool) => (tool.type === "other" ? [tool.kind] : []));
  const blocks = messages.flatMap(({ role, content }) =>
    role === "assistant" && typeof content !== "string"
      ? content.flatMap((block) => (block.type === "other" ? [block.name] : []))
      : [],
  );
  return [...new Set([...kinds, ...blocks])];
}

/** The same request for a chat engine. Throws ApiError `dispatch.invalid_request`. */
export function chatRequest(
  request: Omit<MessagesRequest, "max_tokens"> & { readonly max_tokens?: number | undefined },
): object {
  const { model, system, messages, tools, tool_choice: choice, output_config: output } = request;
  const systemText = system === null || system === undefined ? "" : joinedTexts(system);
  const offered = (tools ?? []).flatMap((tool) => (tool.type === "custom" ? [tool] : []));
  if (choice && isMissing(choice, offered, tools?.length ?? 0)) {
    const message =
      "demands a call of a tool that runs in Anthropic's service: only tools of the client's own can be called here";
    throw invalidRequest([{ path: ["tool_choice"], message }]);
  }
  const optional = {
    temperature: request.temperature,
    top_p: request.top_p,
    top_k: request.top_k,
    stop: request.stop_sequences?.length === 0 ? undefined : request.stop_sequences,
    tools:
      offered.length === 0
        ? undefined
        : offered.map(({ name, description, input_schema: parameters }) => ({
            type: "function",
            function: { name, ...(typeof description === "string" && { description }), parameters },
          })),
    tool_choice: choice && (offered.length > 0 || !tools?.length) ? toolChoice(choice) : undefined,
    parallel_tool_calls:
      choice && "disable_parallel_tool_use" in choice && choice.disable_parallel_tool_use ? false : undefined,
    response_format: output?.format && {
      type: "json_schema",
      json_schema: { name: "output", schema: output.format.schema, strict: true },
    },
  };
  const chat = withOneSystem([
    ...(systemText === "" ? [] : [{ role: "system" as const, content: systemText }]),
    ...messages.flatMap(chatMessages),
  ]);
  return {
    model,
    messages: chat,
    max_tokens: request.max_tokens,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined && value !== null)),
    ...(request.stream === true ? { stream: true, stream_options: { include_usage: true } } : {}),
  };
}

function chatMessages(message: MessagesRequest["messages"][number]): ChatMessage[] {
  switch (message.role) {
    case "user":
      return userMessages(message.content);
    case "assistant":
      return [
        typeof message.content === "string"
          ? { role: "assistant", content: message.content }
          : assistantMessage(message.content),
      ];
    case "system":
      return [{ role: "system", content: joinedTexts(message.content) }];
    default:
      return message satisfies never;
  }
}

/** The only tools that may be called are among those left out. */
function isMissing(
  choice: NonNullable<MessagesRequest["tool_choice"]>,
  offered: readonly { readonly name: string }[],
  count: number,
): boolean {
  if (choice.type === "any") return count > 0 && offered.length === 0;
  return choice.type === "tool" && offered.length < count && offered.every(({ name }) => name !== choice.name);
}

function toolChoice(choice: NonNullable<MessagesRequest["tool_choice"]>): unknown {
  switch (choice.type) {
    case "auto":
    case "none":
      return choice.type;
    case "any":
      return "required";
    case "tool":
      return { type: "function", function: { name: choice.name } };
    default:
      return choice satisfies never;
  }
}

/**
 * Results of tools come first, each as a separate message: a chat has them between the calls and the rest. There they are
 * texts; their images follow in the user's message.
 */
function userMessages(content: string | readonly UserBlock[]): ChatMessage[] {
  if (typeof content === "string") return [{ role: "user", content }];
  const results: ChatMessage[] = [];
  const parts: ChatPart[] = [];
  for (const block of content) {
    if (block.type !== "tool_result") {
      parts.push(block);
      continue;
    }
    const { tool_use_id: id, content: result, is_error: isError } = block;
    const text = textOf(result ?? "");
    const isSilent = text === "" && isError === true;
    results.push({ role: "tool", tool_call_id: id, content: isSilent ? "The tool failed." : text });
    parts.push(...mediaOf(result ?? ""));
  }
  return parts.length === 0 && results.length > 0 ? results : [...results, { role: "user", content: contentOf(parts) }];
}

function assistantMessage(blocks: readonly AssistantBlock[]): ChatMessage {
  const text = blocks.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("");
  const calls = blocks.flatMap((block) =>
    block.type === "tool_use"
      ? [
          {
            id: block.id,
            type: "function",
            function: { name: block.name, arguments: encodeRequest(block.input ?? {}).toString() },
          },
        ]
      : [],
  );
  if (calls.length === 0) return { role: "assistant", content: text };
  return { role: "assistant", content: text === "" ? null : text, tool_calls: calls };
}
