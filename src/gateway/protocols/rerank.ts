import { ApiError } from "../../api/errors.ts";
import { invalidRequest, problemsOf } from "../../api/problems.ts";
import { rerankAnswerSchema, rerankRequestSchema } from "../../api/rerank.ts";
import { encodeRequest, parseAnswer, parseRequest } from "./json.ts";
import type { Translation } from "./translation.ts";

/**
 * Rerank as CONTRACT "/v1" has it, over what `llama-server` takes at `/v1/rerank`: `query` and `documents` as texts,
 * all of them scored. Sorting and cutting happen here, because engines differ in both.
 */
export class RerankTranslation implements Translation {
  #model: unknown;
  #count = 0;
  #limit = Infinity;
  /** Kept only where the answer repeats them. */
  #documents: readonly string[] | undefined;

  request(body: Buffer): Buffer {
    const parsed = rerankRequestSchema.safeParse(parseRequest(body));
    if (!parsed.success) throw invalidRequest(problemsOf(parsed.error));
    const { documents, texts, top_n: topN, top_k: topK, return_documents: isReturning, query, ...rest } = parsed.data;
    const all = documents ?? texts ?? [];
    this.#model = rest["model"];
    this.#count = all.length;
    this.#limit = topN ?? topK ?? Infinity;
    this.#documents = isReturning === true ? all : undefined;
    return encodeRequest({ ...rest, query, documents: all });
  }

  answer(body: Buffer): Buffer {
    const parsed = rerankAnswerSchema.safeParse(parseAnswer(body));
    const found = parsed.data?.results;
    const isSound =
      found !== undefined &&
      found.every(({ index }) => index < this.#count) &&
      new Set(found.map(({ index }) => index)).size === found.length;
    if (!isSound) throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer is no ranking" });
    const results = found
      .toSorted((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
      .slice(0, this.#limit)
      .map((result) => ({ ...result, ...this.#document(result.index) }));
    const usage = parsed.data?.usage ?? { prompt_tokens: 0, total_tokens: 0 };
    return Buffer.from(JSON.stringify({ object: "list", model: this.#model, results, usage }));
  }

  #document(index: number): object {
    const text = this.#documents?.[index];
    return text === undefined ? {} : { document: { text } };
  }
}
