import { z } from "zod";
import { isResponseType } from "../../api/response-types.ts";

/**
 * The part of OpenAI's Responses protocol that a chat engine can serve. Fields that need stored answers, or tools that
 * run in the service, are refused by name; other fields pass to the engine.
 */

const textPart = z.object({ type: z.enum(["input_text", "output_text", "text"]), text: z.string() });
const refusalPart = z.object({ type: z.literal("refusal"), refusal: z.string() });
const imagePart = z.object({
  type: z.literal("input_image"),
  image_url: z.string("must be a URL or a data URL: files are not stored here"),
  detail: z.string().nullish(),
});

const parts = z.array(
  z.discriminatedUnion("type", [textPart, refusalPart, imagePart], {
    error: ({ input }) => `${typeName(input)} cannot be passed to this engine: only texts and images`,
  }),
);
const content = z.union([z.string(), parts], "must be a text or a list of parts");

const message = z.object({
  type: z.literal("message"),
  role: z.enum(["user", "assistant", "system", "developer"], 'must be "user", "assistant", "system" or "developer"'),
  content,
});
const functionCall = z.object({
  type: z.literal("function_call"),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});
const functionCallOutput = z.object({ type: z.literal("function_call_output"), call_id: z.string(), output: content });
const reasoning = z.object({ type: z.literal("reasoning") });

/** An item of an earlier answer, by its id. */
const itemReference = z.object({ type: z.literal("item_reference"), id: z.string() });

/** A message may omit its type, and so may a reference. */
function typed(item: unknown): unknown {
  if (typeof item !== "object" || item === null || ("type" in item && item.type !== null)) return item;
  if ("role" in item) return { ...item, type: "message" };
  return "id" in item ? { ...item, type: "item_reference" } : item;
}

const notPassed = {
  error: ({ input }: { readonly input?: unknown }) =>
    `${typeName(input)} cannot be passed to this engine: only messages, function calls and their outputs`,
};
const wholeItem = z.discriminatedUnion("type", [message, functionCall, functionCallOutput, reasoning], notPassed);
const item = z.preprocess(
  typed,
  z.discriminatedUnion("type", [message, functionCall, functionCallOutput, reasoning, itemReference], notPassed),
);

const functionTool = z.object({
  type: z.literal("function"),
  name: z.string(),
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
  strict: z.boolean().nullish(),
});

const functionChoice = z.object({ type: z.literal("function"), name: z.string() });
const toolChoice = z.union(
  [
    z.enum(["none", "auto", "required"]),
    z.discriminatedUnion("type", [
      functionChoice,
      z.object({
        type: z.literal("allowed_tools"),
        mode: z.enum(["auto", "required"]),
        tools: z.array(z.looseObject({ type: z.string(), name: z.string().optional() })),
      }),
    ]),
  ],
  'must be "none", "auto", "required", a function or allowed_tools',
);

const textFormat = z.discriminatedUnion(
  "type",
  [
    z.object({ type: z.literal("text") }),
    z.object({ type: z.literal("json_object") }),
    z.object({
      type: z.literal("json_schema"),
      name: z.string(),
      schema: z.record(z.string(), z.unknown()),
      description: z.string().nullish(),
      strict: z.boolean().nullish(),
    }),
  ],
  'must be "text", "json_object" or "json_schema"',
);

/** A field with only one possible value. */
function never(why: string): z.ZodOptional<z.ZodNull> {
  return z.null(why).optional();
}
const notKept = "conversations are not stored here: send the whole conversation as input";

export const responsesRequestSchema = z.looseObject({
  model: z.string(),
  input: z.union(
    [z.string(), z.array(item).min(1, "must hold at least one item")],
    "must be a text or a list of items",
  ),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  store: z.boolean().nullish(),
  max_output_tokens: z.int("must be a whole number, at least 1").min(1, "must be a whole number, at least 1").nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  tools: z
    .array(
      z.discriminatedUnion("type", [functionTool], {
        error: ({ input }) =>
          `${typeName(input)} is no tool of this service: only functions of the client's own are called`,
      }),
    )
    .nullish(),
  tool_choice: toolChoice.nullish(),
  text: z.looseObject({ format: textFormat.nullish() }).nullish(),
  reasoning: z.looseObject({ effort: z.string().nullish() }).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  include: z
    .array(
      z.string().refine((name) => name !== "message.output_text.logprobs", {
        error: "message.output_text.logprobs is not available here: /v1/chat/completions has logprobs",
      }),
    )
    .nullish(),
  previous_response_id: never(`previous_response_id is not possible: ${notKept}`),
  conversation: never(`conversation is not possible: ${notKept}`),
  prompt: never("prompt is not possible: templates are not stored here; send instructions and input"),
  background: z
    .literal(false, "background is not possible: an answer is given to the request that asks for it")
    .nullish(),
});

export type ResponsesRequest = z.output<typeof responsesRequestSchema>;
/** The schema of an answer's item as input. */
export const answeredItemSchema = wholeItem;
export type ResponsesItem = z.output<typeof wholeItem>;
export type ResponsesContent = z.output<typeof content>;

/** The client's type, if the protocol has it: other values are not repeated. */
function typeName(input: unknown): string {
  const type = typeof input === "object" && input !== null && "type" in input ? input.type : undefined;
  return isResponseType(type) ? type : "this type";
}
