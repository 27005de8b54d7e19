import { z } from "zod";
import { ApiError } from "../../api/errors.ts";
import { checkRequest, encodeRequest, parseAnswer } from "./json.ts";
import { listOf } from "./list-of.ts";
import { rerankAnswerSchema } from "./rerank-format.ts";
import type { Translation } from "./translation.ts";

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
    if (data.some(({ score }) => score === undefined))
      throw new ApiError("dispatch.upstream_failed", { message: "the engine's answer does not score every text" });
    const counts = usage ?? { prompt_tokens: 0, total_tokens: 0 };
    return Buffer.from(JSON.stringify({ object: "list", model: this.#model, data, usage: counts }));
  }
}
