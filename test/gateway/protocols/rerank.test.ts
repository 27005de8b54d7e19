import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RerankTranslation } from "../../../src/gateway/protocols/rerank.ts";
import { ScoreTranslation } from "../../../src/gateway/protocols/score.ts";
import { list, record } from "../../support/openai.ts";
import { decode, encode, failureOf, refusedAt } from "./bodies.ts";
import { fc } from "../../support/fast-check.ts";

const documents = ["a", "b"];

describe("score", () => {
  const asked = (request: object): unknown =>
    decode(new ScoreTranslation().request(encode({ model: "embed", ...request })));

  it("compares one text with others, and keeps their order", () => {
    for (const first of ["q", ["q"]]) {
      const translation = new ScoreTranslation();
      const sent = translation.request(encode({ model: "embed", text_1: first, text_2: documents, truncate: true }));
      assert.deepEqual(decode(sent), { model: "embed", truncate: true, query: "q", documents });
      const results = [2, -1].map((score, at) => ({ index: 1 - at, relevance_score: score }));
      assert.deepEqual(decode(translation.answer(encode({ results, usage: { total_tokens: 3 } }))), {
        object: "list",
        model: "embed",
        data: [-1, 2].map((score, index) => ({ index, object: "score", score })),
        usage: { total_tokens: 3 },
      });
      const { code } = failureOf(() => translation.answer(encode({ results: results.slice(1) })));
      assert.equal(code, "dispatch.upstream_failed");
    }
  });

  it("refuses what is no text against texts", () => {
    for (const body of [{}, { text_1: "q" }, { text_1: documents, text_2: documents }, { text_1: "q", text_2: [] }])
      assert.equal(failureOf(() => asked(body)).code, "dispatch.invalid_request");
  });
});

describe("rerank request", () => {
  const asked = (request: object): unknown =>
    decode(new RerankTranslation().request(encode({ model: "embed", ...request })));
  const spellings: readonly (readonly [what: string, request: object, more?: object])[] = [
    ["texts", { query: "q", documents }],
    ["objects with text", { query: "q", documents: [{ text: "a" }, "b"] }],
    ["a query with text", { query: { text: "q" }, documents }],
    [
      "text-embeddings-inference's fields",
      { query: "q", texts: documents, raw_scores: true, return_text: true, truncate: true },
      { truncate: true },
    ],
    ["limits that are ours", { query: "q", documents, top_n: 1, top_k: 2, return_documents: true }],
    ["nulls", { query: "q", documents, top_n: null, return_documents: null }],
    ["fields of the engine", { query: "q", documents, truncate: true }, { truncate: true }],
  ];
  for (const [what, request, more] of spellings)
    it(`takes ${what}`, () => assert.deepEqual(asked(request), { model: "embed", query: "q", documents, ...more }));

  for (const [body, message] of [
    ["", "the body is empty"],
    ["{", "the body is not valid JSON"],
    ["[]", "the body must be a JSON object"],
  ] as const)
    it(`refuses ${JSON.stringify(body)}`, () => {
      const failure = failureOf(() => new RerankTranslation().request(encode(body)));
      assert.deepEqual([failure.code, failure.message], ["dispatch.invalid_request", message]);
      assert.equal(failure.details?.["path"], undefined);
    });

  const noText = 'must be a text, or an object with "text"';
  const refused: readonly (readonly [body: object, place: string, message: string])[] = [
    [{ documents }, "query", noText],
    [{ query: 5, documents }, "query", noText],
    [{ query: "q" }, "documents", "must be a list of texts"],
    [{ query: "q", documents: "a" }, "documents", "must be a list of texts"],
    [{ query: "q", documents: [] }, "documents", "must not be empty"],
    [{ query: "q", documents: ["a", 7] }, "documents.1", noText],
    [{ query: "q", documents: [{ text: 7 }] }, "documents.0.text", "must be text, and is a number"],
    [{ query: "q", documents, texts: documents }, "documents", 'may not stand beside "texts"'],
    [{ query: "q", documents, top_n: 0 }, "top_n", "must be a whole number, at least 1"],
    [{ query: "q", documents, top_n: 1.5 }, "top_n", "must be a whole number, at least 1"],
    [{ query: "q", documents, return_documents: "yes" }, "return_documents", "must be true or false"],
    [{ query: "q", texts: documents, return_text: 1 }, "return_text", "must be true or false"],
  ];
  for (const [body, place, message] of refused)
    it(`refuses ${JSON.stringify(body)}`, () =>
      assert.equal(refusedAt(place, () => asked(body)).message, `${place}: ${message}`));

  it("names the other problems too, and no rejected value", () => {
    const failure = refusedAt("query", () => asked({ query: 4711, documents: [4712], top_n: 0 }));
    assert.deepEqual(failure.envelope().error.details, {
      path: ["query"],
      message: noText,
      more: [
        { path: ["documents", 0], message: noText },
        { path: ["top_n"], message: "must be a whole number, at least 1" },
      ],
    });
  });
});

describe("rerank answer", () => {
  const texts = ["one", "two", "three"];
  const scores = [0.1, 0.9, 0.5].map((score, index) => ({ index, relevance_score: score }));
  const sorted = scores.toSorted((a, b) => b.relevance_score - a.relevance_score);
  const usage = { prompt_tokens: 7, total_tokens: 7 };
  const none = { prompt_tokens: 0, total_tokens: 0 };
  const ranked = (results: readonly object[], counts: object = usage): object => ({
    object: "list",
    model: "embed",
    results,
    usage: counts,
  });
  const bare = [1, 2, 0].map((index) => ({ index, score: scores[index]?.relevance_score }));

  function translated(request: object, answer: unknown): unknown {
    const translation = new RerankTranslation();
    translation.request(encode({ model: "embed", query: "q", ...request }));
    return decode(translation.answer(encode(answer)));
  }

  const [first] = scores;
  const all = { model: "engine-name", results: scores, usage };
  const answers: readonly (readonly [what: string, request: object, answer: unknown, got: unknown])[] = [
    ["is sorted and carries the name and the usage", { documents: texts }, all, ranked(sorted)],
    [
      "honours top_n and return_documents",
      { documents: texts, top_n: 1, return_documents: true },
      all,
      ranked([{ ...scores[1], document: { text: "two" } }]),
    ],
    ["honours top_k", { documents: texts, top_k: 2 }, all, ranked(sorted.slice(0, 2))],
    ["is a bare list for text-embeddings-inference's texts", { texts }, all, bare],
    [
      "is a bare list with its texts",
      { texts, return_text: true },
      all,
      bare.map((each) => ({ ...each, text: texts[each.index] })),
    ],
    ["takes results without usage", { documents: texts }, { results: [first] }, ranked([{ ...first }], none)],
    ["takes data", { documents: texts }, { data: [first] }, ranked([{ ...first }], none)],
    ["takes a bare list of scores", { documents: texts }, [{ index: 0, score: 0.1 }], ranked([{ ...first }], none)],
  ];
  for (const [what, request, answer, got] of answers)
    it(what, () => assert.deepEqual(translated(request, answer), got));

  for (const answer of [
    "\u0000<not json",
    null,
    {},
    { results: "x" },
    { results: [{ index: 3, relevance_score: 1 }] },
    { results: [{ index: 0, relevance_score: null }] },
    { results: [first, first] },
  ])
    it(`reports ${JSON.stringify(answer)} as a failure of the engine`, () =>
      assert.equal(failureOf(() => translated({ documents: texts }, answer)).code, "dispatch.upstream_failed"));

  it("never loses, invents or misplaces a document", () => {
    const some = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 20 });
    const numbers = fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }));
    fc.assert(
      fc.property(some, fc.option(fc.integer({ min: 1, max: 25 })), numbers, (given, top, values) => {
        const valueOf = (index: number): number => (values[index] ?? 0) + 0;
        const results = given.map((_, index) => ({ index, relevance_score: valueOf(index) }));
        const asked = { documents: given, return_documents: true, top_n: top };
        const found = list(record(translated(asked, { results }))["results"]);
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
