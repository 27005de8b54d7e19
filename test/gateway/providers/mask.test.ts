import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { Mask, maskedFailure } from "../../../src/gateway/providers/mask.ts";

const key = "sk-proj-0123456789/abc";

describe("mask", () => {
  const cases: readonly (readonly [what: string, text: string, masked: string])[] = [
    ["as it is", `bad key ${key}!`, `bad key ${"*".repeat(key.length)}!`],
    ["twice", `${key}${key}`, "*".repeat(2 * key.length)],
    ["with escaped slashes", String.raw`"sk-proj-0123456789\/abc"`, `"${"*".repeat(key.length + 1)}"`],
    ["in an address", `?key=${encodeURIComponent(key)}&a=b`, `?key=${"*".repeat(key.length + 2)}&a=b`],
    ["not at all", "sk-proj-0123456789/ab", "sk-proj-0123456789/ab"],
  ];
  for (const [what, text, masked] of cases) {
    it(`hides a key that appears ${what}`, () => assert.equal(new Mask(key).text(text), masked));
  }

  it("hides a key with quotes in JSON", () => {
    const odd = 'a"b\\c-0123456789';
    assert.equal(new Mask(odd).text(JSON.stringify(odd)).includes("b"), false);
  });

  it("does not mask a key of fewer than four characters, and without one nothing", () => {
    assert.equal(new Mask("abc").text("abc"), "abc");
    assert.equal(new Mask(undefined).text(key), key);
  });

  it("hides a key in all parts of a failure", () => {
    const failure = new ApiError("dispatch.rejected", { message: key, status: 400, details: { upstream: key } });
    failure.engineText = `CUDA out of memory: ${key}`;
    const masked = maskedFailure(failure, new Mask(key));
    const stars = "*".repeat(key.length);
    assert.deepEqual([masked.message, masked.status, masked.details], [stars, 400, { upstream: stars }]);
    assert.equal(masked.engineText, `CUDA out of memory: ${stars}`);
  });

  it("does not change the given buffer", () => {
    const bytes = Buffer.from(key);
    assert.notEqual(new Mask(key).bytes(bytes), bytes);
    assert.equal(bytes.toString(), key);
    const plain = Buffer.from("plain");
    assert.equal(new Mask(key).bytes(plain), plain);
  });
});
