import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RerankTranslation } from "../../../src/gateway/protocols/rerank.ts";
import { ScoreTranslation } from "../../../src/gateway/protocols/score.ts";
import { decode, encode, failureOf } from "./bodies.ts";
import { fc } from "../../support/fast-check.ts";

function translated(request: object, answer: unknown): { sent: unknown; answer: unknown } {
  const translation = new RerankTranslation();
  const sent = decode(translation.request(encode({ model: "embed", ...request })));
  return { sent, answer: decode(translation.answer(encode(answer))) };
}

describe("score", () => {
  it("compares one text with others, and keeps their order", () => {
    for (const [first, second] of [
      ["q", ["a", "b"]],
      [["q"], ["a", "b"]],
    ] as const) {
      const translation = new ScoreTranslation();
      const sent = translation.request(encode({ model: "embed", text_1: first, text_2: second, truncate: true }));
      assert.deepEqual(decode(sent), { model: "embed", truncate: true, query: "q", documents: ["a", "b"] });
      const results = [
        { index: 1, relevance_score: 2 },
        { index: 0, relevance_score: -1 },
      ];
      assert.deepEqual(decode(translation.answer(encode({ results, usage: { total_tokens: 3 } }))), {
        object: "list",
        model: "embed",
        data: [
          { index: 0, object: "score", score: -1 },
          { index: 1, object: "score", score: 2 },
        ],
        usage: { total_tokens: 3 },
      });
      assert.throws(() => translation.answer(encode({ results: results.slice(1) })), {
        code: "dispatch.upstream_failed",
      });
    }
    for (const body of [{}, { text_1: "q" }, { text_1: ["a", "b"], text_2: ["c", "d"] }, { text_1: "q", text_2: [] }])
      assert.throws(() => new ScoreTranslation().request(encode({ model: "embed", ...body })), {
        code: "dispatch.invalid_request",
      });
  });
});

describe("rerank request", () => {
  const documents = ["a", "b"];
  const spellings: readonly (readonly [what: string, request: object, sent: object])[] = [
    ["texts", { query: "q", documents }, { query: "q", documents }],
    ["objects with text", { query: "q", documents: [{ text: "a" }, "b"] }, { query: "q", documents }],
    ["a query with text", { query: { text: "q" }, documents }, { query: "q", documents }],
    [
      "text-embeddings-inference's fields",
      { query: "q", texts: documents, raw_scores: true, return_text: true, truncate: true },
      { query: "q", documents, truncate: true },
    ],
    [
      "limits that are ours",
      { query: "q", documents, top_n: 1, top_k: 2, return_documents: true },
      { query: "q", documents },
    ],
    ["nulls", { query: "q", documents, top_n: null, return_documents: null }, { query: "q", documents }],
    ["fields of the engine", { query: "q", documents, truncate: true }, { truncate: true, query: "q", documents }],
  ];
  for (const [what, request, sent] of spellings) {
    it(`takes ${what}`, () => {
      const body = new RerankTranslation().request(encode({ model: "embed", ...request }));
      assert.deepEqual(decode(body), { model: "embed", ...sent });
    });
  }

  const refused: readonly (readonly [body: unknown, message: string, path: readonly unknown[] | undefined])[] = [
    ["", "the body is empty", undefined],
    ["{", "the body is not valid JSON", undefined],
    [[], "the body must be a JSON object", undefined],
    [{ documents }, 'query: must be a text, or an object with "text"', ["query"]],
    [{ query: 5, documents }, 'query: must be a text, or an object with "text"', ["query"]],
    [{ query: "q" }, "documents: must be a list of texts", ["documents"]],
    [{ query: "q", documents: "a" }, "documents: must be a list of texts", ["documents"]],
    [{ query: "q", documents: [] }, "documents: must not be empty", ["documents"]],
    [{ query: "q", documents: ["a", 7] }, 'documents.1: must be a text, or an object with "text"', ["documents", 1]],
    [
      { query: "q", documents: [{ text: 7 }] },
      "documents.0.text: must be text, and is a number",
      ["documents", 0, "text"],
    ],
    [{ query: "q", documents, texts: documents }, 'documents: may not stand beside "texts"', ["documents"]],
    [{ query: "q", documents, top_n: 0 }, "top_n: must be a whole number, at least 1", ["top_n"]],
    [{ query: "q", documents, top_n: 1.5 }, "top_n: must be a whole number, at least 1", ["top_n"]],
    [
      { query: "q", documents, return_documents: "yes" },
      "return_documents: must be true or false",
      ["return_documents"],
    ],
    [{ query: "q", texts: documents, return_text: 1 }, "return_text: must be true or false", ["return_text"]],
  ];
  for (const [body, message, path] of refused) {
    it(`refuses ${JSON.stringify(body)}`, () => {
      const error = failureOf(() => new RerankTranslation().request(encode(body)));
      assert.equal(error.code, "dispatch.invalid_request");
      assert.equal(error.message, message);
      assert.deepEqual(error.details?.["path"], path);
    });
  }

  it("names the other problems too, and no rejected value", () => {
    const error = failureOf(() =>
      new RerankTranslation().request(encode({ query: 4711, documents: [4712], top_n: 0 })),
    );
    assert.deepEqual(error.envelope().error.details, {
      path: ["query"],
      message: 'must be a text, or an object with "text"',
      more: [
        { path: ["documents", 0], message: 'must be a text, or an object with "text"' },
        { path: ["top_n"], message: "must be a whole number, at least 1" },
      ],
    });
  });
});

describe("rerank answer", () => {
  const documents = ["one", "two", "three"];
  const scores = [
    { index: 0, relevance_score: 0.1 },
    { index: 1, relevance_score: 0.9 },
    { index: 2, relevance_score: 0.5 },
  ];
  const usage = { prompt_tokens: 7, total_tokens: 7 };

  it("is sorted and carries the name and the usage", () => {
    assert.deepEqual(translated({ query: "q", documents }, { model: "engine-name", results: scores, usage }).answer, {
      object: "list",
      model: "embed",
      results: [
        { index: 1, relevance_score: 0.9 },
        { index: 2, relevance_score: 0.5 },
        { index: 0, relevance_score: 0.1 },
      ],
      usage,
    });
  });

  it("honours top_n and return_documents", () => {
    const { answer } = translated(
      { query: "q", documents, top_n: 1, return_documents: true },
      { results: scores, usage },
    );
    const results = [{ index: 1, relevance_score: 0.9, document: { text: "two" } }];
    assert.deepEqual(answer, { object: "list", model: "embed", results, usage });
  });

  it("is a bare list for text-embeddings-inference's texts", () => {
    const texts = documents;
    const bare = [
      { index: 1, score: 0.9 },
      { index: 2, score: 0.5 },
      { index: 0, score: 0.1 },
    ];
    assert.deepEqual(translated({ query: "q", texts }, { results: scores, usage }).answer, bare);
    assert.deepEqual(
      translated({ query: "q", texts, return_text: true }, { results: scores, usage }).answer,
      bare.map(({ index, score }) => ({ index, score, text: texts[index] })),
    );
  });

  const empty = { prompt_tokens: 0, total_tokens: 0 };
  const spellings: readonly (readonly [what: string, answer: unknown])[] = [
    ["results without usage", { results: scores.slice(0, 1) }],
    ["data", { data: scores.slice(0, 1) }],
    ["a bare list of scores", [{ index: 0, score: 0.1 }]],
  ];
  for (const [what, answer] of spellings) {
    it(`takes ${what} from the engine`, () => {
      const results = [{ index: 0, relevance_score: 0.1 }];
      assert.deepEqual(translated({ query: "q", documents }, answer).answer, {
        object: "list",
        model: "embed",
        results,
        usage: empty,
      });
    });
  }

  const garbage: readonly unknown[] = [
    "\u0000<not json",
    null,
    {},
    { results: "x" },
    { results: [{ index: 3, relevance_score: 1 }] },
    { results: [{ index: 0, relevance_score: null }] },
    { results: [scores[0], scores[0]] },
  ];
  for (const answer of garbage) {
    it(`reports ${JSON.stringify(answer)} as a failure of the engine`, () => {
      assert.equal(failureOf(() => translated({ query: "q", documents }, answer)).code, "dispatch.upstream_failed");
    });
  }

  it("never loses, invents or misplaces a document", () => {
    const cases = fc.record({
      texts: fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 20 }),
      top: fc.option(fc.integer({ min: 1, max: 25 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(cases, fc.array(fc.double({ noNaN: true, noDefaultInfinity: true })), ({ texts, top }, numbers) => {
        const results = texts.map((_, index) => ({ index, relevance_score: (numbers[index] ?? 0) + 0 }));
        const request = {
          query: "q",
          documents: texts,
          return_documents: true,
          ...(top === undefined ? {} : { top_n: top }),
        };
        const { answer } = translated(request, { results });
        assert.ok(
          typeof answer === "object" && answer !== null && "results" in answer && Array.isArray(answer.results),
        );
        const found: { index: number; relevance_score: number; document: { text: string } }[] = answer.results;
        assert.equal(found.length, Math.min(texts.length, top ?? Infinity));
        assert.ok(found.every(({ index, document }) => texts[index] === document.text));
        assert.ok(
          found.every(({ relevance_score: score }, at) => score <= (found[at - 1]?.relevance_score ?? Infinity)),
        );
        const dropped = texts.keys().filter((index) => !found.some((result) => result.index === index));
        const least = found.at(-1)?.relevance_score ?? -Infinity;
        assert.ok(dropped.every((index) => (numbers[index] ?? 0) <= least));
      }),
    );
  });
});
