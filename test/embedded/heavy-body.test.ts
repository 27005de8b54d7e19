import assert from "node:assert/strict";
import { it } from "node:test";
import { readBody } from "../../engines/src/requests.ts";

it("the embedded engine refuses a body that holds too much to be parsed, and takes long texts", () => {
  for (const value of [
    `[${"{},".repeat(100_000)}0]`,
    `{"a":${"[".repeat(300)}${"]".repeat(300)}}`,
    `[${'"\\\\",'.repeat(101_000)}0]`,
  ])
    assert.throws(() => readBody(`{"messages":${value}}`), { status: 400, message: /^the body holds too much/ });
  const text = `{"a": [${"[{,:".repeat(50_000)}\\"`;
  assert.deepEqual(readBody(JSON.stringify({ prompt: text })), { prompt: text });
});
