import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "./site.ts";

test("a slot whose manifest is deleted within its reconcile starts no engine", async () => {
  await using site = new Site();
  const { prepared } = site.contexts;
  site.contexts = {
    ...site.contexts,
    prepared: async (workload, ref) => {
      site.source.delete(workload.slot);
      return await prepared(workload, ref);
    },
  };
  site.source.save("a", custom());
  await site.start();
  await site.advance(5);
  assert.deepEqual(site.deeds("a"), []);
  assert.equal(site.publisher.slots.has("a"), false);
});
