import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, list, post, record } from "../support/openai.ts";
import { refusal, startEngine } from "./engine.ts";

test("the embedded engine embeds", async (t) => {
  await using engine = await startEngine({ embedding: true }, "--embedding", "--pooling", "mean");

  await t.test("one vector per text, of length one, the same as numbers and as base64", async () => {
    const body = await ask(engine.url, "/v1/embeddings", { input: ["hello", "the world"] });
    const vectors = list(body["data"]).map(({ embedding }) => embedding);
    assert.equal(vectors.length, 2);
    for (const vector of vectors) {
      assert.ok(Array.isArray(vector) && vector.length === 64);
      assert.ok(Math.abs(Math.hypot(...vector.map(Number)) - 1) < 1e-5);
    }
    const encoded = await ask(engine.url, "/v1/embeddings", { input: "hello", encoding_format: "base64" });
    const bytes = Buffer.from(String(list(encoded["data"])[0]?.["embedding"]), "base64");
    assert.equal(bytes.length, 64 * 4);
    const [first] = vectors;
    assert.ok(Array.isArray(first) && Math.abs(bytes.readFloatLE(0) - Number(first[0])) < 1e-5);
  });

  await t.test("a text of the context's very length has a vector, and usage counts every token", async () => {
    const count = async (input: string): Promise<unknown> =>
      record((await ask(engine.url, "/v1/embeddings", { input }))["usage"])["prompt_tokens"];
    // A letter is a token of its own; the model puts another one before the text.
    assert.equal(await count("a".repeat(3)), 4);
    assert.equal(await count("a".repeat(2047)), 2048);
    const response = await post(engine.url, "/v1/embeddings", { input: "a".repeat(2048) });
    assert.equal(response.status, 400);
    assert.match(await response.text(), /request \(2049 tokens\) exceeds the available context size \(2048 tokens\)/);
  });

  await t.test("the whole of a long text decides about its vector, not the end alone", async () => {
    const end = "b";
    // With the token before it a text of 512 tokens, which one more must not outweigh.
    const long = "a".repeat(511);
    const { data } = await ask(engine.url, "/v1/embeddings", { input: [long, `${long}${end}`, end] });
    const [of = [], ofMore = [], ofEnd = []] = list(data).map(({ embedding }) => numbers(embedding));
    assert.ok(cosine(ofMore, of) > 0.99, `${cosine(ofMore, of)}`);
    assert.ok(cosine(ofMore, ofEnd) < 0.9, `${cosine(ofMore, ofEnd)}`);
  });

  await t.test("a blank text has a vector, and null is a form of numbers", async () => {
    const body = await ask(engine.url, "/v1/embeddings", { input: ["a", " "], encoding_format: null });
    for (const { embedding } of list(body["data"])) assert.ok(Array.isArray(embedding) && embedding.length === 64);
  });

  const tooLong = /^400 request \(\d+ tokens\) exceeds the available context size/;
  const refused: readonly [string, object, RegExp][] = [
    ["an input beyond the context", { input: "the and ".repeat(3000) }, tooLong],
    ["an empty text as base64", { input: "", encoding_format: "base64" }, /^400 input is empty/],
    ["an empty text in a list, with its place", { input: ["a", "", " "] }, /^400 input\[1\] is empty/],
    ["an unknown form of numbers", { input: "a", encoding_format: "hex" }, /^400 encoding_format must be float or/],
  ];
  for (const [name, asked, message] of refused)
    await t.test(`refused: ${name}`, async () =>
      assert.match(await refusal(engine.url, "/v1/embeddings", asked), message),
    );
});

function numbers(vector: unknown): readonly number[] {
  return Array.isArray(vector) ? vector.map(Number) : [];
}

/** The cosine of two vectors of length one. */
function cosine(one: readonly number[], other: readonly number[]): number {
  return one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);
}

test("the embedded engine ranks", async (t) => {
  await using engine = await startEngine({ ranker: true, name: "ranker" }, "--reranking", "--ctx-size", "256");
  const documents = ["one", "the man with", "again"];

  await t.test("every document has a score of its own, best first, the same alone and among others", async () => {
    const body = await ask(engine.url, "/v1/rerank", { model: "tiny", query: "which", documents });
    const results = list(body["results"]);
    assert.deepEqual(new Set(results.map(({ index }) => index)), new Set([0, 1, 2]));
    const scores = results.map(({ relevance_score: score }) => Number(score));
    assert.deepEqual(
      scores,
      scores.toSorted((a, b) => b - a),
    );
    assert.equal(new Set(scores).size, 3);
    for (const { index, relevance_score: score } of results) {
      const alone = await ask(engine.url, "/v1/rerank", { query: "which", documents: [documents[Number(index)]] });
      assert.ok(Math.abs(Number(list(alone["results"])[0]?.["relevance_score"]) - Number(score)) < 1e-6);
    }
    assert.ok(Number(record(body["usage"])["total_tokens"]) > 0);
  });

  const refused: readonly [string, string, object, RegExp][] = [
    ["a document beyond the context", "/v1/rerank", { query: "which", documents: ["the and ".repeat(500)] }, /^400 /],
    ["no documents", "/v1/rerank", { query: "which", documents: [] }, /^400 documents is empty/],
    ["a chat", "/v1/chat/completions", { messages: [{ role: "user", content: "x" }] }, /^501 /],
  ];
  for (const [name, path, body, message] of refused)
    await t.test(`refused: ${name}`, async () => assert.match(await refusal(engine.url, path, body), message));
});
