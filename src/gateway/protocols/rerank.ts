import { z } from "zod";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import { fieldsOf, withFields } from "../../lib/json-fields.ts";
import { checkRequest, encodeRequest, failed, parseAnswer, parseRequest, requestFields } from "./json.ts";
import { listOf } from "./list-of.ts";
import { rerankAnswerSchema, rerankRequestSchema } from "./rerank-format.ts";
import type { Translation } from "./translation.ts";

/** text-embeddings-inference has one model without a name: its clients mean the slot that ranks. */
export function defaultReranker(body: Buffer): string | undefined {
  return fieldsOf(body)?.some(({ name }) => name === "texts") === true ? "embed" : undefined;
}

/** Fields that the engine gets in its own spelling, or not at all. */
const replaced = new Set([
  "model",
  "query",
  "documents",
  "texts",
  "top_n",
  "top_k",
  "return_documents",
  "return_text",
  "raw_scores",
]);

/**
 * Rerank as in CONTRACT "/v1", over `/v1/rerank` of `llama-server`: `query` and `documents` as texts, all of them
 * scored. Sorting and cutting are done here, because engines differ in both. A request with `texts` follows
 * text-embeddings-inference, and gets its answer: a bare list of `{index, score, text?}`
 * (https://huggingface.github.io/text-embeddings-inference). Scores are the engine's own in both.
 */
export class RerankTranslation implements Translation {
  #model: unknown;
  #isBare = false;
  #count = 0;
  #limit = Infinity;
  /** Kept only where the answer repeats them. */
  #documents: readonly string[] | undefined;

  request(body: Buffer): Buffer {
    const checked = rerankRequestSchema.safeParse(parseRequest(body));
    if (!checked.success) throw invalidRequest(problemsOf(checked.error));
    const { model, query, documents, texts, top_n: topN, top_k: topK, ...flags } = checked.data;
    const { return_documents: isReturning, return_text: isTextReturned } = flags;
    const all = documents ?? texts ?? [];
    this.#isBare = texts !== undefined;
    this.#model = model ?? "embed";
    this.#count = all.length;
    this.#limit = topN ?? topK ?? Infinity;
    this.#documents = (this.#isBare ? (isTextReturned ?? isReturning) : isReturning) === true ? all : undefined;
    const kept = requestFields(body).filter(({ name }) => !replaced.has(name));
    return withFields(body, kept, { model: this.#model, query, documents: all });
  }

  answer(body: Buffer): Buffer {
    const parsed = rerankAnswerSchema.safeParse(parseAnswer(body));
    const found = parsed.data?.results;
    const isSound =
      found !== undefined &&
      found.every(({ index }) => index < this.#count) &&
      new Set(found.map(({ index }) => index)).size === found.length;
    if (!isSound) throw failed("the answer is no ranking");
    const results = found
      .toSorted((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
      .slice(0, this.#limit);
    if (this.#isBare) {
      const bare = results.map(({ index, relevance_score: score }) => ({
        index,
        score,
        text: this.#documents?.[index],
      }));
      return Buffer.from(JSON.stringify(bare));
    }
    const usage = parsed.data?.usage ?? { prompt_tokens: 0, total_tokens: 0 };
    return Buffer.from(
      JSON.stringify({
        object: "list",
        model: this.#model,
        results: results.map((result) => ({ ...result, ...this.#document(result.index) })),
        usage,
      }),
    );
  }

  #document(index: number): object {
    const text = this.#documents?.[index];
    return text === undefined ? {} : { document: { text } };
  }
}

const one = z.string("must be a text");
const several = listOf(one, "must be a text or a list of texts").check(z.minLength(1, "must not be empty"));
const scoreRequestSchema = z.looseObject({
  text_1: z.union([one, several.check(z.maxLength(1, "must be one text: send a request for each pair"))]),
  text_2: z.union([one, several]),
});

/** vLLM's `/v1/score`, one text against one or several, over `/v1/rerank` of `llama-server`. The scores are the engine's. */
export class ScoreTranslation implements Translation {
  #model: unknown;
  #count = 0;

  request(body: Buffer): Buffer {
    const { text_1: first, text_2: second, ...rest } = checkRequest(scoreRequestSchema, body);
    const documents = [second].flat();
    this.#model = rest["model"];
    this.#count = documents.length;
    return encodeRequest({ ...rest, query: [first].flat()[0], documents });
  }

  answer(body: Buffer): Buffer {
    const { results, usage } = rerankAnswerSchema.safeParse(parseAnswer(body)).data ?? {};
    const scores = new Map(results?.map(({ index, relevance_score: score }) => [index, score]));
    const data = Array.from({ length: this.#count }, (_, index) => ({
      index,
      object: "score",
      score: scores.get(index),
    }));
    if (data.some(({ score }) => score === undefined)) throw failed("the answer does not score every text");
    const counts = usage ?? { prompt_tokens: 0, total_tokens: 0 };
    return Buffer.from(JSON.stringify({ object: "list", model: this.#model, data, usage: counts }));
  }
}
