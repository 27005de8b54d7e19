import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Site } from "./site.ts";

describe("an operator that starts", () => {
  it("says of no slot that its model is unknown while the models are still being read", async () => {
    await using site = await new Site().run({ a: { model: { default: "tiny" } } });
    assert.equal(site.condition("a", "Ready"), "True/Loaded");
    const { promise, resolve } = Promise.withResolvers<void>();
    site.reading = promise;
    const starting = site.start();
    await site.turn();
    await site.controller.resync();
    site.publisher.missingSlots = () => ["a"];
    site.controller.restore();
    await site.turn();
    assert.equal(site.condition("a", "Ready"), "True/Loaded");
    resolve();
    await starting;
    assert.equal(site.condition("a", "Ready"), "True/Loaded");
  });
});

it("an operator that was ended deletes no saved contexts: they are the next operator's", async () => {
  await using site = new Site();
  let swept = 0;
  site.contexts = { ...site.contexts, sweep: async () => void (swept += 1) };
  const { promise, resolve } = Promise.withResolvers<void>();
  await site.start();
  site.source.resync = async () => await promise;
  const again = site.controller.resync();
  await site.end();
  resolve();
  await again;
  assert.equal(swept, 1);
});
