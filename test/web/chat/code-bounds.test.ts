import assert from "node:assert/strict";
import { it } from "node:test";
import { isColourable } from "../../../web/chat/code-bounds.ts";

it("code stays plain where its grammar would stop the page: very long code, and a word without end", () => {
  for (const [text, expected] of [
    ["", true],
    ["a b\n".repeat(5000), true],
    ["a b\n".repeat(5001), false],
    [`${"a".repeat(499)} b`, true],
    [`x = ${"a".repeat(500)}`, false],
  ] as const)
    assert.equal(isColourable(text), expected, `${text.length} characters`);
});
