import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelRecord } from "../../src/api/model.ts";
import { Site } from "./site.ts";

const record: ModelRecord = {
  ref: "far",
  origin: "manifest",
  source: "hf://owner/repo/far.gguf",
  files: [],
  created: 0,
  capabilities: ["chat"],
  state: "missing",
  reason: "NotFetched",
  message: "far is not on this machine yet",
  fetch: { files: [{ source: "hf://owner/repo/far.gguf" }] },
};

test("a model whose header says that it cannot fit is refused before anything of it is fetched", async () => {
  await using site = new Site();
  site.models.set("far", record);
  const fetched: string[] = [];
  site.pulls = {
    ...site.pulls,
    join: async ({ ref }) => {
      fetched.push(ref);
      return "there";
    },
  };
  const message = "needs 90 GiB on host, which has 8.0 GiB; far was not fetched";
  let isTooLarge = true;
  site.fit = {
    ...site.fit,
    beforeFetch: (_input, unprepared) => (isTooLarge ? { reason: "DoesNotFit", message } : unprepared),
  };
  await site.start();
  site.source.save("primary", { model: { default: "far" } });
  await site.advance(10);
  assert.deepEqual([site.state("primary"), site.condition("primary", "Stalled")], ["error", "True/DoesNotFit"]);
  assert.deepEqual([site.slot("primary").plan.message, fetched], [message, []]);
  // An edit with which it fits has it fetched.
  isTooLarge = false;
  site.source.save("primary", { model: { default: "far", contextSize: 4096 } });
  await site.advance(10);
  assert.ok(fetched.length > 0);
});
