import { z } from "zod";
import { listOf } from "./list-of.ts";
import { inputItemSchema } from "./responses-input.ts";
import { toolChoiceSchema, toolsSchema } from "./responses-tools.ts";

/**
 * The part of OpenAI's Responses protocol that a chat engine can serve. Fields that need stored answers are refused by
 * name; other fields pass to the engine.
 */

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
    [z.string(), listOf(inputItemSchema).check(z.minLength(1, "must hold at least one item"))],
    "must be a text or a list of items",
  ),
  instructions: z.string().nullish(),
  stream: z.boolean().nullish(),
  store: z.boolean().nullish(),
  max_output_tokens: z.int("must be a whole number, at least 1").min(1, "must be a whole number, at least 1").nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  tools: toolsSchema.nullish(),
  tool_choice: toolChoiceSchema.nullish(),
  text: z.looseObject({ format: textFormat.nullish() }).nullish(),
  reasoning: z.looseObject({ effort: z.string().nullish() }).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  include: listOf(
    z.string().refine((name) => name !== "message.output_text.logprobs", {
      error: "message.output_text.logprobs is not available here: /v1/chat/completions has logprobs",
    }),
  ).nullish(),
  previous_response_id: never(`previous_response_id is not possible: ${notKept}`),
  conversation: never(`conversation is not possible: ${notKept}`),
  prompt: never("prompt is not possible: templates are not stored here; send instructions and input"),
  background: z
    .literal(false, "background is not possible: an answer is given to the request that asks for it")
    .nullish(),
});

export type ResponsesRequest = z.output<typeof responsesRequestSchema>;
