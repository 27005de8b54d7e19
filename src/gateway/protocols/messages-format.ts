import { z } from "zod";
import { isRecord } from "../../lib/record.ts";
import { byType } from "./by-type.ts";
import { filePart, notShown, textPart, titled, unknownPart, type ChatPart } from "./chat-content.ts";
import { listOf } from "./list-of.ts";

/** The part of Anthropic's Messages protocol that a chat engine can serve. Other fields have no meaning for it. */

const textBlock = z.object({ type: z.literal("text"), text: z.string() });
const text = textBlock.transform((block) => textPart(block.text));
const texts = z.union([z.string(), listOf(textBlock)], "must be a text or a list of text blocks");

export function joinedTexts(content: string | readonly { readonly text: string }[]): string {
  return typeof content === "string" ? content : content.map((each) => each.text).join("\n\n");
}

function imagePart(url: string): ChatPart {
  return { type: "image_url", image_url: { url } };
}

const image = z.object({
  source: byType<ChatPart>(
    {
      base64: z
        .object({ media_type: z.string(), data: z.string() })
        .transform(({ media_type: mediaType, data }) => imagePart(`data:${mediaType};base64,${data}`)),
      url: z.object({ url: z.string() }).transform(({ url }) => imagePart(url)),
    },
    () => notShown("An image that is stored elsewhere"),
  ),
});

const document = z
  .object({
    title: z.string().nullish(),
    source: byType<(title: string | null | undefined) => ChatPart>(
      {
        text: z.object({ data: z.string() }).transform((source) => (title) => titled(title, source.data)),
        content: z
          .object({ content: texts })
          .transform((source) => (title) => titled(title, joinedTexts(source.content))),
        base64: z
          .object({ media_type: z.string().default(""), data: z.string() })
          .transform((source) => (title) => filePart(title, source.media_type, Buffer.from(source.data, "base64"))),
      },
      () => (title) => filePart(title, "", undefined),
    ),
  })
  .transform(({ title, source }) => source(title));

/** Translates content of the user and of tools, by its type. */
const shown = {
  text,
  image: image.transform(({ source }) => source),
  document,
  search_result: z
    .object({ title: z.string(), source: z.string(), content: listOf(textBlock) })
    .transform(({ title, source, content }) => textPart(`${title}\n${source}\n\n${joinedTexts(content)}`)),
  tool_reference: z.object({ tool_name: z.string() }).transform((block) => textPart(block.tool_name)),
};

const toolResult = z
  .object({
    tool_use_id: z.string(),
    content: z
      .union([z.string(), listOf(byType<ChatPart>(shown, unknownPart))], "must be a text or a list of blocks")
      .nullish(),
    is_error: z.boolean().nullish(),
  })
  .transform((result) => ({ type: "tool_result" as const, ...result }));
const userBlocks = listOf(
  byType<ChatPart | z.output<typeof toolResult>>({ ...shown, tool_result: toolResult }, unknownPart),
);

const toolUse = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.unknown().optional(),
});
const noPart = z.unknown().transform(() => ({ type: "none" as const }));

/** Reasoning is left out: chat engines do not accept it. So are calls and results of tools that run in the service. */
const assistantBlocks = listOf(
  byType<
    | z.output<typeof textBlock>
    | z.output<typeof toolUse>
    | { readonly type: "none" }
    | { readonly type: "other"; readonly name: string }
  >({ text: textBlock, tool_use: toolUse, thinking: noPart, redacted_thinking: noPart }, (name) => ({
    type: "other",
    name,
  })),
);

const message = z.discriminatedUnion(
  "role",
  [
    z.object({
      role: z.literal("user"),
      content: z.union([z.string(), userBlocks], "must be a text or a list of blocks"),
    }),
    z.object({
      role: z.literal("assistant"),
      content: z.union([z.string(), assistantBlocks], "must be a text or a list of blocks"),
    }),
    z.object({ role: z.literal("system"), content: texts }),
  ],
  'must be "user", "assistant" or "system"',
);

const isParallelOff = { disable_parallel_tool_use: z.boolean().nullish() };
const toolChoice = z.discriminatedUnion(
  "type",
  [
    z.object({ type: z.literal("auto"), ...isParallelOff }),
    z.object({ type: z.literal("any"), ...isParallelOff }),
    z.object({ type: z.literal("tool"), name: z.string(), ...isParallelOff }),
    z.object({ type: z.literal("none") }),
  ],
  'must be "auto", "any", "tool" or "none"',
);

const format = z.object({
  type: z.literal("json_schema", 'must be "json_schema"'),
  schema: z.record(z.string(), z.unknown()),
});

const clientTool = z.object({
  type: z.literal("custom"),
  name: z.string(),
  description: z.string().nullish(),
  input_schema: z.record(z.string(), z.unknown()),
});

export const messagesRequestSchema = z.object({
  model: z.string(),
  messages: listOf(message).check(z.minLength(1, "must hold at least one message")),
  max_tokens: z.int("must be a whole number, at least 1").min(1, "must be a whole number, at least 1"),
  system: texts.nullish(),
  stream: z.boolean().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
  stop_sequences: listOf(z.string()).nullish(),
  thinking: z.object({ type: z.string() }).nullish(),
  tools: listOf(
    z.preprocess(
      (value) => (isRecord(value) && (value["type"] ?? null) === null ? { ...value, type: "custom" } : value),
      byType<z.output<typeof clientTool> | { readonly type: "other"; readonly kind: string }>(
        { custom: clientTool },
        (kind) => ({ type: "other", kind }),
      ),
    ),
  ).nullish(),
  tool_choice: toolChoice.nullish(),
  output_config: z.object({ format: format.nullish() }).nullish(),
});

export type MessagesRequest = z.output<typeof messagesRequestSchema>;
export type UserBlock = z.output<typeof userBlocks>[number];
export type AssistantBlock = z.output<typeof assistantBlocks>[number];
