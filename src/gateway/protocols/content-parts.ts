import { z } from "zod";
import { listOf } from "./list-of.ts";

const textPart = z.object({ type: z.literal("text"), text: z.string() });
const thinkingPart = z.object({
  type: z.literal("thinking"),
  thinking: z.union([z.string(), listOf(z.object({ text: z.string().default("") }))]),
});

/**
 * The content of a chat answer: a text, or a list of parts, as Mistral's reasoning models send it. Other kinds of parts, such as
 * references, are left out. https://docs.mistral.ai/capabilities/reasoning/
 */
export const contentSchema = z
  .union([z.string(), listOf(z.union([textPart, thinkingPart, z.unknown().transform(() => undefined)]))])
  .nullish();

type Content = z.output<typeof contentSchema>;

interface WithContent {
  readonly content?: Content;
  readonly reasoning_content?: string | null | undefined;
}

/** The same message or delta with its content as one text, and the thinking of its parts as the reasoning. */
export function withText<T extends WithContent>(
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
