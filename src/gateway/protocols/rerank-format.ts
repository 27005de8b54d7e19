import { z } from "zod";
import { listOf } from "./list-of.ts";

const textSchema = z.union(
  [z.string(), z.looseObject({ text: z.string() }).transform(({ text }) => text)],
  'must be a text, or an object with "text"',
);
const textList = listOf(textSchema, "must be a list of texts").check(z.minLength(1, "must not be empty"));
const countSchema = z.int("must be a whole number, at least 1").min(1, "must be a whole number, at least 1").nullish();

/**
 * A rerank request in the spellings that clients use: Jina's and Cohere's `documents` and `top_n`, Voyage's `top_k`, and
 * `texts`, `return_text` and `raw_scores` of text-embeddings-inference. Other fields are kept for the engine.
 */
export const rerankRequestSchema = z
  .looseObject({
    model: z.unknown().optional(),
    query: textSchema,
    documents: textList.optional(),
    texts: textList.optional(),
    top_n: countSchema,
    top_k: countSchema,
    return_documents: z.boolean("must be true or false").nullish(),
    return_text: z.boolean("must be true or false").nullish(),
    raw_scores: z.boolean("must be true or false").nullish(),
  })
  .check((context) => {
    const { documents, texts } = context.value;
    if ((documents === undefined) !== (texts === undefined)) return;
    const message = documents === undefined ? "must be a list of texts" : 'may not stand beside "texts"';
    context.issues.push({ code: "custom", path: ["documents"], message, input: undefined });
  });

const indexSchema = z.int().min(0);
const resultSchema = z.union([
  z.object({ index: indexSchema, relevance_score: z.number() }),
  z
    .object({ index: indexSchema, score: z.number() })
    .transform(({ index, score }) => ({ index, relevance_score: score })),
]);
const listSchema = listOf(resultSchema);

/** Engines' answers: a list under `results` or `data`, or bare. */
export const rerankAnswerSchema = z.union([
  z.object({ results: listSchema, usage: z.unknown().optional() }),
  z
    .object({ data: listSchema, usage: z.unknown().optional() })
    .transform(({ data, usage }) => ({ results: data, usage })),
  listSchema.transform((results) => ({ results, usage: undefined })),
]);
