import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RerankTranslation } from "../../../src/gateway/protocols/rerank.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { fc } from "../../support/fast-check.ts";
import { startGateway } from "../../support/gateway.ts";
import { list, record } from "../../support/openai.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { decode, encode } from "./bodies.ts";
import { exchanging } from "./site.ts";

const documents = ["one", "two", "three"];
const scores = [0.1, 0.9, 0.5].map((score, index) => ({ index, relevance_score: score }));
const [first] = scores;
const sorted = scores.toSorted((a, b) => b.relevance_score - a.relevance_score);
const usage = { prompt_tokens: 7, total_tokens: 7 };
const none = { prompt_tokens: 0, total_tokens: 0 };
const all = { model: "engine-name", results: scores, usage };

describe("rerank", () => {
  const ask = exchanging("/v1/rerank", { model: "primary", query: "q", documents });
  const plain = { texts: documents, documents: undefined };

  it("is one request for the engine, however the client spells it, at each of its paths", async () => {
    for (const [request, more = {}, path] of [
      [{}, {}, "/v1/rerankings"],
      [{ documents: ["one", { text: "two" }, "three"] }, {}, "/v1/reranking"],
      [{ query: { text: "q" } }, {}, "/rerank"],
      [{ ...plain, raw_scores: true, return_text: true, truncate: true }, { truncate: true }],
      [{ top_n: 1, top_k: 2, return_documents: true }],
      [{ top_n: null, return_documents: null }],
    ] as const) {
      const { sent } = await ask(request, all, path);
      assert.deepEqual(sent, { model: "engine-model", query: "q", documents, ...more }, JSON.stringify(request));
    }
  });

  const ranked = (results: readonly object[], counts: object = usage): object => ({
    object: "list",
    model: "primary",
    results,
    usage: counts,
  });
  const bare = [1, 2, 0].map((index) => ({ index, score: scores[index]?.relevance_score }));
  const document = { text: "two" };
  const answers: readonly (readonly [what: string, request: object, answer: object, got: unknown])[] = [
    ["is sorted and carries the name and the usage", {}, all, ranked(sorted)],
    ["honours top_n", { top_n: 1, return_documents: true }, all, ranked([{ ...scores[1], document }])],
    ["honours top_k", { top_k: 2 }, all, ranked(sorted.slice(0, 2))],
    ["is a bare list for text-embeddings-inference's texts", plain, all, bare],
    [
      "is a bare list with its texts",
      { ...plain, return_text: true },
      all,
      bare.map((each) => ({ ...each, text: documents[each.index] })),
    ],
    ["takes results without usage", {}, { results: [first] }, ranked([{ ...first }], none)],
    ["takes data", {}, { data: [first] }, ranked([{ ...first }], none)],
    ["takes a bare list of scores", {}, [{ index: 0, score: 0.1 }], ranked([{ ...first }], none)],
  ];
  for (const [what, request, answer, got] of answers)
    it(what, async () => assert.deepEqual(JSON.parse((await ask(request, answer)).text), got));

  it("is a failure of the engine where its answer is no ranking of these documents", async () => {
    for (const answer of [
      {},
      { results: "x" },
      { results: [{ index: 3, relevance_score: 1 }] },
      { results: [{ index: 0, relevance_score: null }] },
      { results: [first, first] },
    ])
      assert.deepEqual((await ask({}, answer)).status, 502, JSON.stringify(answer));
  });

  it("goes to embed where it names no model and has texts, as text-embeddings-inference's clients send it", async () => {
    await using engine = await scriptedEngine((response) => json(response, { results: [first] }));
    await using gateway = await startGateway({ slots: { embed: { port: engine.port } } });
    assert.equal((await gateway.post("/rerank", { query: "q", texts: ["a"] })).status, 200);
    const without = await gateway.post("/rerank", { query: "q", documents: ["a"] });
    assert.equal((await envelopeOf(without)).error.code, "dispatch.missing_model");
    await gateway.publish("embed", { state: "offline" });
    const wrong = await gateway.post("/v1/rerank", { model: "embed", query: "q", documents: [1] });
    assert.equal(wrong.status, 400, "a wrong shape loads no slot");
  });

  it("never loses, invents or misplaces a document", () => {
    const some = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 20 });
    const numbers = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }));
    fc.assert(
      fc.property(some, fc.option(fc.integer({ min: 1, max: 25 })), numbers, (given, top, values) => {
        const valueOf = (index: number): number => (values[index] ?? 0) + 0;
        const results = given.map((_, index) => ({ index, relevance_score: valueOf(index) }));
        const translation = new RerankTranslation();
        translation.request(encode({ model: "m", query: "q", documents: given, return_documents: true, top_n: top }));
        const found = list(record(decode(translation.answer(encode({ results }))))["results"]);
        assert.equal(found.length, Math.min(given.length, top ?? Infinity));
        for (const { index, document, relevance_score: score } of found)
          assert.deepEqual([given[Number(index)], valueOf(Number(index))], [record(document)["text"], score]);
        const got = found.map(({ index }) => Number(index));
        assert.deepEqual(
          got.map(valueOf),
          got.map(valueOf).toSorted((a, b) => b - a),
        );
        const least = Math.min(...got.map(valueOf));
        for (const index of given.keys()) assert.ok(got.includes(index) || valueOf(index) <= least);
      }),
    );
  });
});

describe("score", () => {
  const ask = exchanging("/v1/score", { model: "primary", text_2: ["a", "b"], truncate: true });

  it("compares one text with others, and keeps their order", async () => {
    const results = [2, -1].map((score, at) => ({ index: 1 - at, relevance_score: score }));
    for (const first of ["q", ["q"]]) {
      const { sent, answer } = await ask({ text_1: first }, { results, usage });
      assert.deepEqual(sent, { model: "engine-model", truncate: true, query: "q", documents: ["a", "b"] });
      const data = [-1, 2].map((score, index) => ({ index, object: "score", score }));
      assert.deepEqual(answer, { object: "list", model: "primary", data, usage });
    }
    assert.equal((await ask({ text_1: "q" }, { results: results.slice(1) })).status, 502);
  });
});

describe("embeddings of a certain length", () => {
  const ask = exchanging("/v1/embeddings", { model: "primary", input: "x", dimensions: 2 });
  const base64 = (...numbers: readonly number[]): string =>
    Buffer.from(new Float32Array(numbers).buffer).toString("base64");
  const embed = (embedding: string | readonly number[], dimensions = 2) =>
    ask({ dimensions }, { model: "engine-model", data: [{ index: 0, embedding }] });
  const vector = [3, 4, 12, 84];

  it("are the beginning of the engine's, of length 1 again, in the engine's form", async () => {
    for (const [embedding, dimensions, short] of [
      [vector, 2, [0.6, 0.8]],
      [base64(...vector), 2, base64(0.6, 0.8)],
      [vector, 4, vector],
      [base64(...vector), 4, base64(...vector)],
    ] as const) {
      const { sent, answer } = await embed(embedding, dimensions);
      assert.deepEqual(sent, { model: "engine-model", input: "x" }, "the engine gives all it has");
      assert.deepEqual(answer, { model: "primary", data: [{ index: 0, embedding: short }] });
    }
  });

  it("are the client's mistake where they are longer, and the engine's failure where it has no numbers", async () => {
    for (const dimensions of [3, 1_000_000_000, Number.MAX_SAFE_INTEGER])
      for (const short of [base64(3, 4), [3, 4]]) {
        const { refusal } = await embed(short, dimensions);
        assert.deepEqual(refusal, ["dimensions", "dimensions: must be at most 2, the length of this model's vectors"]);
      }
    for (const empty of [[], "", "AAA="]) assert.match((await embed(empty)).refusal[1], /without numbers/);
    for (const data of [[{ embedding: [1, "2", 3] }], [{ embedding: { a: 1 } }], [], "embedding"])
      assert.equal((await ask({}, { data })).status, 502, JSON.stringify(data));
    assert.equal((await ask({}, '{"data":[{"embedding":[1,')).status, 502);
  });

  it("are cut in a whole batch, with what stands beside them as it is written", async () => {
    const long = `[3, 4,${"0.0123456789012345,".repeat(30)}1e-3]`;
    const item = (index: number, embedding: string): string =>
      `{"object":"embedding","index":${index}, "embedding" : ${embedding}}`;
    const written = (embedding: string): string =>
      `{"id":12345678901234567890,"data":[${Array.from({ length: 20 }, (_, index) => item(index, embedding)).join(",")}]}`;
    assert.equal((await ask({}, written(long))).text, written("[0.6,0.8]"));
  });
});
