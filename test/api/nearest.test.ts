import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nearest } from "../../src/api/nearest.ts";

describe("nearest", () => {
  it("permits more differences in long words than in short ones", () => {
    const known = ["port", "host", "trustedProxies"];
    assert.equal(nearest("prot", known), "port");
    assert.equal(nearest("trusted_proxys", known), "trustedProxies");
    assert.equal(nearest("PORT", known), "port");
    assert.equal(nearest("abc", known), undefined);
    assert.equal(nearest("something", []), undefined);
    assert.equal(nearest("qwen3:4c", ["qwen2:4d", "qwen3:4b", "qwen3:8b"]), "qwen3:4b");
    assert.equal(nearest("primray", new Set(["primary"])), "primary");
    assert.equal(nearest("abcdefghij", ["jihgfedcba", "abcdefxyzw", "abcdefgxyz"]), "abcdefgxyz");
  });
});
