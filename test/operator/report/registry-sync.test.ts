import assert from "node:assert/strict";
import { it } from "node:test";
import { Site } from "../site.ts";

it("the state of a SlotGroup that was deleted and made again while nobody looked is published again", async () => {
  await using site = new Site();
  let written = 0;
  const write = site.publisher.writeRegistry.bind(site.publisher);
  site.publisher.writeRegistry = async (registry) => {
    written += 1;
    await write(registry);
  };
  site.source.group("gpu", { budget: { slots: 1 } }, "first");
  await site.run({});
  assert.equal(written, 1);
  site.source.group("gpu", { budget: { slots: 1 } }, "first");
  await site.advance(5);
  assert.equal(written, 1, "the same object is not written again");
  site.source.group("gpu", { budget: { slots: 1 } }, "second");
  await site.advance(5);
  assert.equal(written, 2);
});
