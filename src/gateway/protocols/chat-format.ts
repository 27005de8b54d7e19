import { z } from "zod";
import { listOf } from "./list-of.ts";

/**
 * The translated part of a chat engine's answers: OpenAI's shapes, and additions of engines. A field that is null is
 * absent.
 */

const count = z
  .number()
  .nullish()
  .transform((value) => value ?? 0);
const index = z
  .int()
  .nullish()
  .transform((value) => value ?? 0);
const id = z
  .string()
  .nullish()
  .transform((value) => value ?? "");
/** A text, or the object that the text should hold. */
const callArguments = z
  .union([z.string(), z.record(z.string(), z.unknown()).transform((value) => JSON.stringify(value))])
  .nullish();

const textPart = z.object({ type: z.literal("text"), text: z.string() });
const thinkingPart = z.object({
  type: z.literal("thinking"),
  thinking: z.union([z.string(), listOf(z.object({ text: z.string().default("") }))]),
});

/**
 * The content of a chat answer: a text, or a list of parts, as Mistral's reasoning models send it. Other kinds of parts, such as
 * references, are left out. https://docs.mistral.ai/capabilities/reasoning/
 */
const contentSchema = z
  .union([z.string(), listOf(z.union([textPart, thinkingPart, z.unknown().transform(() => undefined)]))])
  .nullish();

const usage = z.object({
  prompt_tokens: count,
  completion_tokens: count,
  prompt_tokens_details: z.object({ cached_tokens: z.number().nullish() }).nullish(),
  completion_tokens_details: z.object({ reasoning_tokens: z.number().nullish() }).nullish(),
});
export type ChatUsage = z.output<typeof usage>;

const finish = {
  finish_reason: z.string().nullish(),
  /** vLLM's field: the stop sequence that was matched. */
  stop_reason: z.unknown().optional(),
};
const said = {
  content: contentSchema,
  refusal: z.string().nullish(),
  /** Reasoning of models: the names that llama-server and others use for it. */
  reasoning_content: z.string().nullish(),
  reasoning: z.unknown().optional(),
};

export const chatAnswerSchema = z.object({
  id,
  choices: listOf(
    z.object({
      ...finish,
      message: z
        .object({
          ...said,
          tool_calls: listOf(
            z.object({
              id,
              function: z.object({ name: z.string(), arguments: callArguments.transform((value) => value ?? "") }),
            }),
          ).nullish(),
        })
        .transform(withText),
    }),
  ).check(z.minLength(1)),
  usage: usage.nullish(),
});

export const chatChunkSchema = z.object({
  id,
  choices: listOf(
    z.object({
      ...finish,
      index,
      delta: z
        .object({
          ...said,
          tool_calls: listOf(
            z.object({
              index,
              id: z.string().nullish(),
              function: z.object({ name: z.string().nullish(), arguments: callArguments }).nullish(),
            }),
          ).nullish(),
        })
        .transform(withText)
        .nullish(),
    }),
  )
    .nullish()
    .transform((value) => value ?? []),
  usage: usage.nullish(),
});
export type ChatChunk = z.output<typeof chatChunkSchema>;

type Content = z.output<typeof contentSchema>;

interface WithContent {
  readonly content?: Content;
  readonly reasoning_content?: string | null | undefined;
}

/** The same message or delta with its content as one text, and the thinking of its parts as the reasoning. */
function withText<T extends WithContent>(
  part: T,
): Omit<T, keyof WithContent> & { content: string | null | undefined; reasoning_content: string | null | undefined } {
  const { content, reasoning_content: reasoning } = part;
  if (!Array.isArray(content)) return { ...part, content, reasoning_content: reasoning };
  let text = "";
  let thinking = "";
  for (const each of content) {
    if (each?.type === "text") text += each.text;
    else if (each?.type === "thinking")
      thinking += typeof each.thinking === "string" ? each.thinking : each.thinking.map((piece) => piece.text).join("");
  }
  return { ...part, content: text, reasoning_content: reasoning ?? thinking };
}
