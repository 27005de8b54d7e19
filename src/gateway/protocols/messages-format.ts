import { z } from "zod";

/** The part of Anthropic's Messages protocol that a chat engine can serve. Other fields have no meaning for it. */

const textBlock = z.object({ type: z.literal("text"), text: z.string() });

const imageBlock = z.object({
  type: z.literal("image"),
  source: z.discriminatedUnion(
    "type",
    [
      z.object({ type: z.literal("base64"), media_type: z.string(), data: z.string() }),
      z.object({ type: z.literal("url"), url: z.string() }),
    ],
    'only images of type "base64" or "url" can be passed to this engine',
  ),
});

const documentBlock = z.object({
  type: z.literal("document"),
  title: z.string().nullish(),
  source: z.discriminatedUnion(
    "type",
    [z.object({ type: z.literal("text"), data: z.string() })],
    "only documents of plain text can be passed to this engine",
  ),
});

const resultContent = z.discriminatedUnion(
  "type",
  [textBlock, imageBlock, documentBlock],
  "only text, images and documents of plain text can be passed to this engine",
);

const toolResultBlock = z.object({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(resultContent)], "must be a text or a list of blocks").nullish(),
  is_error: z.boolean().nullish(),
});

const toolUseBlock = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.unknown().optional(),
});

const thinkingBlock = z.object({ type: z.literal("thinking") });
const redactedBlock = z.object({ type: z.literal("redacted_thinking") });

const texts = z.union([z.string(), z.array(textBlock)], "must be a text or a list of text blocks");
const userBlocks = z.array(
  z.discriminatedUnion(
    "type",
    [textBlock, imageBlock, documentBlock, toolResultBlock],
    "this kind of block cannot be passed to this engine",
  ),
);
const assistantBlocks = z.array(
  z.discriminatedUnion(
    "type",
    [textBlock, toolUseBlock, thinkingBlock, redactedBlock],
    "this kind of block cannot be passed to this engine",
  ),
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

export const messagesRequestSchema = z.object({
  model: z.string(),
  messages: z.array(message).min(1, "must hold at least one message"),
  max_tokens: z.int("must be a whole number, at least 1").min(1, "must be a whole number, at least 1"),
  system: texts.nullish(),
  stream: z.boolean().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
  stop_sequences: z.array(z.string()).nullish(),
  thinking: z.object({ type: z.string() }).nullish(),
  tools: z
    .array(
      z.object({
        type: z.literal("custom", "only tools of the client's own can be passed to this engine").nullish(),
        name: z.string(),
        description: z.string().nullish(),
        input_schema: z.record(z.string(), z.unknown()),
      }),
    )
    .nullish(),
  tool_choice: toolChoice.nullish(),
  output_config: z.object({ format: format.nullish() }).nullish(),
});

export type MessagesRequest = z.output<typeof messagesRequestSchema>;
export type UserBlock = z.output<typeof userBlocks>[number];
export type AssistantBlock = z.output<typeof assistantBlocks>[number];
export type ImageBlock = z.output<typeof imageBlock>;
export type DocumentBlock = z.output<typeof documentBlock>;
export type ToolResultBlock = z.output<typeof toolResultBlock>;
