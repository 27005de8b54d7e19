import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { ShortVectors } from "../../../src/gateway/protocols/short-vectors.ts";

function shorten(embedding: string | readonly number[], dimensions: number): unknown {
  const vectors = new ShortVectors();
  vectors.request(Buffer.from(JSON.stringify({ model: "embed", input: "x", dimensions })));
  return JSON.parse(vectors.answer(Buffer.from(JSON.stringify({ data: [{ index: 0, embedding }] }))).toString());
}

it("more dimensions than a vector has are the client's mistake, however many, also in base64", () => {
  const vector = Buffer.from(new Float32Array([3, 4]).buffer).toString("base64");
  for (const dimensions of [3, 1_000_000_000, Number.MAX_SAFE_INTEGER]) {
    assert.throws(
      () => shorten(vector, dimensions),
      (error) => error instanceof ApiError && error.status === 400 && error.message.includes("must be at most 2"),
    );
  }
});

it("a vector without numbers is the engine's failure, as numbers and as base64", () => {
  for (const vector of [[], "", "AAA="]) {
    assert.throws(
      () => shorten(vector, 8),
      (error) => error instanceof ApiError && error.status === 502 && error.message.includes("without numbers"),
    );
  }
});

it("a whole batch is cut, with what stands beside its vectors as it is written", () => {
  const vectors = new ShortVectors();
  vectors.request(Buffer.from('{"model":"embed","input":"x","dimensions":2}'));
  const vector = `[3, 4,${"0.0123456789012345,".repeat(765)}1e-3]`;
  const item = (index: number, embedding: string): string =>
    `{"object":"embedding","index":${index}, "embedding" : ${embedding}}`;
  const answer = (embedding: string): string =>
    `{"id":12345678901234567890,"data":[${Array.from({ length: 1000 }, (_, index) => item(index, embedding)).join(",")}]}`;
  assert.ok(vectors.answer(Buffer.from(answer(vector))).toString() === answer("[0.6,0.8]"));
});

for (const data of ['[{"embedding":[1,"2",3]}]', '[{"embedding":[1,', '[{"embedding":{"a":1}}]', "[]", '"embedding"'])
  it(`${data} is no answer with vectors`, () => {
    const vectors = new ShortVectors();
    vectors.request(Buffer.from('{"model":"embed","input":"x","dimensions":2}'));
    assert.throws(
      () => vectors.answer(Buffer.from(`{"data":${data}}`)),
      (error) => error instanceof ApiError && error.status === 502,
    );
  });
