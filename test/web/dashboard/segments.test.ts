import assert from "node:assert/strict";
import { it } from "node:test";
import { segmentsOf, titleOf } from "../../../web/dashboard/segments.ts";

it("an address is decoded part by part, and one with a broken escape is none", () => {
  assert.deepEqual(segmentsOf("/"), []);
  assert.deepEqual(segmentsOf("/ui/slots/a%20b%2Fc"), ["slots", "a b/c"]);
  assert.equal(segmentsOf("/ui/slots/%E0%A4%A"), undefined);
});

it("a tab is called by its page, of a slot or a part of a page by that first", () => {
  assert.equal(titleOf([]), "Overview · Berth");
  assert.equal(titleOf(["slots", "coder"]), "coder · Berth");
  assert.equal(titleOf(["playground", "rerank"]), "rerank · Playground · Berth");
  assert.equal(titleOf(["providers"]), "Providers · Berth");
  assert.equal(titleOf(["constructor"]), "No such page · Berth");
  assert.equal(titleOf(undefined), "No such page · Berth");
});
