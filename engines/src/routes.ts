import type { ServerResponse } from "node:http";
import { ChatAnswer, TextAnswer, type Answer } from "./answers.ts";
import { readFormat, readMessages, readToolUse } from "./chat-request.ts";
import type { LoadedModel } from "./llama.ts";
import type { Piece, Pieces } from "./pieces.ts";
import { Refusal } from "./refusal.ts";
import { readPlacedTexts, readSampling, readTexts, type Body, type Sampling } from "./requests.ts";

export interface Post {
  readonly model: LoadedModel;
  readonly alias: string;
  readonly path: string;
  readonly body: Body;
  readonly response: ServerResponse;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** Routes of llama-server that clients may expect and this engine lacks. */
const missing = ["/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/infill", "/v1/audio/transcriptions"];

/** Answers one POST. Throws Refusal, before the first byte or in the middle of a stream. */
export async function answerPost({ model, alias, path, body, response, signal }: Post): Promise<void> {
  const name = typeof body["model"] === "string" ? body["model"] : alias;
  switch (path) {
    case "/v1/chat/completions": {
      const sampling = readSampling(body);
      const request = { messages: readMessages(body), sampling, format: readFormat(body), toolUse: readToolUse(body) };
      return await send(response, model.chat(request, signal), sampling, new ChatAnswer(name));
    }
    case "/v1/completions": {
      const sampling = readSampling(body);
      const [prompt, ...more] = readTexts(body["prompt"], "prompt");
      if (prompt === undefined || more.length > 0)
        throw new Refusal(400, "this engine completes one prompt per request");
      const pieces = model.complete(prompt, sampling, readFormat(body), signal);
      return await send(response, pieces, sampling, new TextAnswer(name));
    }
    case "/v1/embeddings": {
      const isBase64 = isBase64Asked(body);
      const { vectors, tokens } = await model.embed(readPlacedTexts(body["input"], "input"), signal);
      const data = vectors.map((vector, index) => ({
        object: "embedding",
        index,
        embedding: isBase64 ? base64(vector) : vector,
      }));
      return json(response, { object: "list", data, model: name, usage: usage(tokens) });
    }
    case "/v1/rerank":
    case "/v1/reranking":
    case "/rerank": {
      const [query = ""] = readTexts(body["query"], "query");
      const { scores, tokens } = await model.rerank(query, readTexts(body["documents"], "documents"), signal);
      const results = scores
        .map((score, index) => ({ index, relevance_score: score }))
        .toSorted((a, b) => b.relevance_score - a.relevance_score)
        .slice(0, topOf(body));
      return json(response, { object: "list", model: name, results, usage: usage(tokens) });
    }
    default:
      if (missing.includes(path)) throw new Refusal(501, `the embedded engine has no ${path}; llama-server does`);
      throw new Refusal(404, `there is no ${path}`);
  }
}

function isBase64Asked({ encoding_format: format }: Body): boolean {
  if (format === undefined || format === null || format === "float") return false;
  if (format === "base64") return true;
  throw new Refusal(400, "encoding_format must be float or base64");
}

function topOf({ top_n: top }: Body): number {
  if (top === undefined || top === null) return Infinity;
  if (typeof top !== "number" || !Number.isInteger(top) || top < 1)
    throw new Refusal(400, "top_n must be a whole number from 1");
  return top;
}

function usage(tokens: number): object {
  return { prompt_tokens: tokens, total_tokens: tokens };
}

/** Answers 200 with a JSON body. */
export function json(response: ServerResponse, value: unknown): void {
  const body = Buffer.from(JSON.stringify(value));
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body);
}

async function send(response: ServerResponse, pieces: Pieces, sampling: Sampling, answer: Answer): Promise<void> {
  if (sampling.isStream) return await stream(response, pieces, sampling, answer);
  const taken: Piece[] = [];
  for (;;) {
    const next = await pieces.next();
    if (next.done === true) return json(response, answer.whole(taken, next.value));
    taken.push(next.value);
  }
}

async function stream(response: ServerResponse, pieces: Pieces, sampling: Sampling, answer: Answer): Promise<void> {
  const event = (value: unknown): void => void response.write(`data: ${JSON.stringify(value)}\n\n`);
  // The first piece decides between an answer and an error: the headers wait for it.
  let next = await pieces.next();
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  const first = answer.first();
  if (first !== undefined) event(first);
  while (next.done !== true) {
    event(answer.chunk(next.value));
    next = await pieces.next();
  }
  event(answer.last(next.value));
  if (sampling.hasUsage) event(answer.usage(next.value));
  response.end("data: [DONE]\n\n");
}

function base64(vector: readonly number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString("base64");
}
