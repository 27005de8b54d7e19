import assert from "node:assert/strict";
import { it } from "node:test";
import { ShortVectors } from "../../../src/gateway/protocols/short-vectors.ts";
import { encode, failureOf, refusedAt } from "./bodies.ts";

function opened(dimensions: number): ShortVectors {
  const vectors = new ShortVectors();
  vectors.request(encode({ model: "embed", input: "x", dimensions }));
  return vectors;
}

const base64 = (...numbers: readonly number[]): string =>
  Buffer.from(new Float32Array(numbers).buffer).toString("base64");
const shorten = (embedding: string | readonly number[], dimensions: number): unknown =>
  JSON.parse(
    opened(dimensions)
      .answer(encode({ data: [{ index: 0, embedding }] }))
      .toString(),
  ).data[0].embedding;

it("a vector is the beginning of the engine's, of length 1 again, in the engine's form", () => {
  const vector = [3, 4, 12, 84];
  assert.deepEqual(shorten(vector, 2), [0.6, 0.8]);
  assert.deepEqual(shorten(base64(...vector), 2), base64(0.6, 0.8));
  for (const whole of [vector, base64(...vector)]) assert.deepEqual(shorten(whole, 4), whole);
});

it("the length is a positive whole number, and stays here", () => {
  for (const dimensions of [0, -1, 1.5]) {
    const { message } = refusedAt("dimensions", () => opened(dimensions));
    assert.equal(message, "dimensions: must be a whole number, at least 1");
  }
  const sent = new ShortVectors().request(encode({ model: "embed", input: "x", dimensions: 2 }));
  assert.equal(sent.toString(), '{"model":"embed","input":"x"}');
});

it("more dimensions than a vector has are the client's mistake, however many, also in base64", () => {
  for (const dimensions of [3, 1_000_000_000, Number.MAX_SAFE_INTEGER])
    for (const vector of [base64(3, 4), [3, 4]])
      assert.match(refusedAt("dimensions", () => shorten(vector, dimensions)).message, /must be at most 2/);
});

it("a vector without numbers is the engine's failure, as numbers and as base64", () => {
  for (const vector of [[], "", "AAA="]) {
    const { code, message } = failureOf(() => shorten(vector, 8));
    assert.equal(code, "dispatch.upstream_failed");
    assert.match(message, /without numbers/);
  }
});

it("a whole batch is cut, with what stands beside its vectors as it is written", () => {
  const vector = `[3, 4,${"0.0123456789012345,".repeat(30)}1e-3]`;
  const item = (index: number, embedding: string): string =>
    `{"object":"embedding","index":${index}, "embedding" : ${embedding}}`;
  const answer = (embedding: string): string =>
    `{"id":12345678901234567890,"data":[${Array.from({ length: 20 }, (_, index) => item(index, embedding)).join(",")}]}`;
  assert.equal(
    opened(2)
      .answer(Buffer.from(answer(vector)))
      .toString(),
    answer("[0.6,0.8]"),
  );
});

for (const data of ['[{"embedding":[1,"2",3]}]', '[{"embedding":[1,', '[{"embedding":{"a":1}}]', "[]", '"embedding"'])
  it(`${data} is no answer with vectors`, () => {
    const { code } = failureOf(() => opened(2).answer(Buffer.from(`{"data":${data}}`)));
    assert.equal(code, "dispatch.upstream_failed");
  });
