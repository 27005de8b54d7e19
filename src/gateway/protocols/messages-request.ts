import type {
  AssistantBlock,
  DocumentBlock,
  ImageBlock,
  MessagesRequest,
  ToolResultBlock,
  UserBlock,
} from "./messages-format.ts";
import { encodeRequest } from "./json.ts";

type Part =
  { readonly type: "text"; readonly text: string } | { readonly type: "image_url"; readonly image_url: object };

/** The same request for a chat engine. */
export function chatRequest(request: MessagesRequest): object {
  const { model, system, messages, tools, tool_choice: choice, output_config: output } = request;
  const systemText = system === null || system === undefined ? "" : textOf(system);
  const optional = {
    temperature: request.temperature,
    top_p: request.top_p,
    top_k: request.top_k,
    stop: request.stop_sequences?.length === 0 ? undefined : request.stop_sequences,
    tools: tools?.map(({ name, description, input_schema: parameters }) => ({
      type: "function",
      function: { name, ...(typeof description === "string" && { description }), parameters },
    })),
    tool_choice: choice === null || choice === undefined ? undefined : toolChoice(choice),
    parallel_tool_calls:
      choice && "disable_parallel_tool_use" in choice && choice.disable_parallel_tool_use ? false : undefined,
    response_format: output?.format && {
      type: "json_schema",
      json_schema: { name: "output", schema: output.format.schema, strict: true },
    },
  };
  return {
    model,
    messages: [
      ...(systemText === "" ? [] : [{ role: "system", content: systemText }]),
      ...messages.flatMap((message): object[] => {
        const { role, content } = message;
        if (typeof content === "string") return [{ role, content }];
        switch (message.role) {
          case "user":
            return userMessages(message.content);
          case "assistant":
            return typeof message.content === "string" ? [] : [assistantMessage(message.content)];
          case "system":
            return [{ role, content: textOf(message.content) }];
          default:
            return message satisfies never;
        }
      }),
    ],
    max_tokens: request.max_tokens,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined && value !== null)),
    ...(request.stream === true ? { stream: true, stream_options: { include_usage: true } } : {}),
  };
}

function textOf(content: string | readonly { readonly text: string }[]): string {
  return typeof content === "string" ? content : content.map(({ text }) => text).join("\n\n");
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

/** Results of tools come first, each as a message of its own: chat has them between the calls and the rest. */
function userMessages(content: string | readonly UserBlock[]): object[] {
  if (typeof content === "string") return [{ role: "user", content }];
  const results: object[] = [];
  const parts: Part[] = [];
  for (const block of content) {
    if (block.type !== "tool_result") {
      parts.push(partOf(block));
      continue;
    }
    const { text, images } = resultOf(block);
    results.push({ role: "tool", tool_call_id: block.tool_use_id, content: text });
    parts.push(...images);
  }
  return parts.length === 0 && results.length > 0 ? results : [...results, { role: "user", content: contentOf(parts) }];
}

/** One text where all parts are text: many engines accept nothing else. */
function contentOf(parts: readonly Part[]): string | readonly Part[] {
  const all = parts.flatMap((part) => (part.type === "text" ? [part] : []));
  return all.length === parts.length ? textOf(all) : parts;
}

function partOf(block: { readonly type: "text"; readonly text: string } | ImageBlock | DocumentBlock): Part {
  switch (block.type) {
    case "text":
      return { type: "text", text: block.text };
    case "image": {
      const { source } = block;
      const url = source.type === "url" ? source.url : `data:${source.media_type};base64,${source.data}`;
      return { type: "image_url", image_url: { url } };
    }
    case "document": {
      const title = typeof block.title === "string" ? `${block.title}\n\n` : "";
      return { type: "text", text: `${title}${block.source.data}` };
    }
    default:
      return block satisfies never;
  }
}

/** Chat's results of tools are texts; images follow in the user's message. */
function resultOf({ content, is_error: isError }: ToolResultBlock): { text: string; images: readonly Part[] } {
  const parts = typeof content === "string" ? [{ type: "text" as const, text: content }] : (content ?? []).map(partOf);
  const images = parts.filter((part) => part.type === "image_url");
  const text = textOf(parts.flatMap((part) => (part.type === "text" ? [part] : [])));
  return { text: text === "" && isError === true ? "The tool failed." : text, images };
}

/** Reasoning is left out: chat engines do not accept it. */
function assistantMessage(blocks: readonly AssistantBlock[]): object {
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
