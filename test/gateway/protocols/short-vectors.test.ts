import assert from "node:assert/strict";
import { it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { ShortVectors } from "../../../src/gateway/protocols/short-vectors.ts";

it("more dimensions than a vector has are the client's mistake, however many, also in base64", () => {
  const vector = Buffer.from(new Float32Array([3, 4]).buffer).toString("base64");
  const answer = Buffer.from(JSON.stringify({ data: [{ index: 0, embedding: vector }] }));
  for (const dimensions of [3, 1_000_000_000, Number.MAX_SAFE_INTEGER]) {
    const vectors = new ShortVectors();
    vectors.request(Buffer.from(JSON.stringify({ model: "embed", input: "x", encoding_format: "base64", dimensions })));
    assert.throws(
      () => vectors.answer(answer),
      (error) => error instanceof ApiError && error.status === 400 && error.message.includes("must be at most 2"),
    );
  }
});
