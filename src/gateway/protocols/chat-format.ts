import { z } from "zod";
import { contentSchema, withText } from "./content-parts.ts";

/** The translated part of a chat engine's answers: OpenAI's shapes, and additions of engines. */

const usage = z.object({
  prompt_tokens: z.number().default(0),
  completion_tokens: z.number().default(0),
  prompt_tokens_details: z.object({ cached_tokens: z.number().nullish() }).nullish(),
  completion_tokens_details: z.object({ reasoning_tokens: z.number().nullish() }).nullish(),
});
export type ChatUsage = z.output<typeof usage>;

const finish = {
  finish_reason: z.string().nullish(),
  /** vLLM's field: the stop sequence that was matched. */
  stop_reason: z.unknown().optional(),
};
/** Reasoning of models: the names that llama-server and others use for it. */
const reasoning = { reasoning_content: z.string().nullish(), reasoning: z.unknown().optional() };

export const chatAnswerSchema = z.object({
  id: z.string().default(""),
  choices: z
    .array(
      z.object({
        ...finish,
        message: z
          .object({
            ...reasoning,
            content: contentSchema,
            refusal: z.string().nullish(),
            tool_calls: z
              .array(
                z.object({ id: z.string().nullish(), function: z.object({ name: z.string(), arguments: z.string() }) }),
              )
              .nullish(),
          })
          .transform(withText),
      }),
    )
    .min(1),
  usage: usage.nullish(),
});

export const chatChunkSchema = z.object({
  id: z.string().default(""),
  choices: z
    .array(
      z.object({
        ...finish,
        index: z.int().default(0),
        delta: z
          .object({
            ...reasoning,
            content: contentSchema,
            refusal: z.string().nullish(),
            tool_calls: z
              .array(
                z.object({
                  index: z.int().default(0),
                  id: z.string().nullish(),
                  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
                }),
              )
              .nullish(),
          })
          .transform(withText)
          .nullish(),
      }),
    )
    .default([]),
  usage: usage.nullish(),
});
export type ChatChunk = z.output<typeof chatChunkSchema>;
