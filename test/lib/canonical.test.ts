import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canonicalJson, sha256 } from "../../src/lib/canonical.ts";
import { isRecord } from "../../src/lib/record.ts";
import { fc } from "../support/fast-check.ts";

/** The same value, its members put in the other way round. */
function reversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reversed);
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, reversed(member)]),
  );
}

describe("canonicalJson", () => {
  it("is the same text for equal values, in any order of their members, and loses nothing", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        const text = canonicalJson(value);
        assert.equal(canonicalJson(reversed(value)), text);
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it("leaves out undefined values, and keeps the order of lists", () => {
    assert.equal(canonicalJson({ b: undefined, a: [2, 1] }), '{"a":[2,1]}');
    assert.equal(canonicalJson(undefined), "null");
  });
});

it("sha256 is that of the text's UTF-8", () => {
  assert.equal(sha256("é"), "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c");
});
