import assert from "node:assert/strict";
import { it } from "node:test";
import { indexAfter } from "../../../web/dashboard/resume.ts";

it("a log that is read again goes on after the lines that were read before", () => {
  const lines = ["a", "b", "c", "d"];
  assert.equal(indexAfter(lines, []), 0);
  assert.equal(indexAfter(lines, ["b", "c"]), 3);
  assert.equal(indexAfter(lines, ["c", "d"]), 4);
  // More of it is to come, or it is another log.
  assert.equal(indexAfter(lines, ["d", "e"]), undefined);
  assert.equal(indexAfter([], ["a"]), undefined);
});

it("a log that says the same again and again loses no line", () => {
  assert.equal(indexAfter(["a", "a", "a", "b"], ["a", "a"]), 2);
});
