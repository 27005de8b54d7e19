import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "./site.ts";

// Nothing looks again by itself at a slot that only a person could mend: whatever mends it has to tell.

test("a slot that is to swap to a model that is still being copied takes it once that is whole", async () => {
  await using site = new Site();
  const cut = { reason: "TruncatedModel", message: "big.gguf ends before its header says" } as const;
  site.setModel("big", { state: "invalid", ...cut });
  await site.run({ a: { model: { default: "tiny" } } });
  await site.request("a", "swap-model", { model: "big", specModel: "tiny" });
  await site.advance(5);
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["ready", "True/TruncatedModel"]);
  await site.controller.resync();
  await site.settle();
  const { ref, served } = site.slot("a").status.model;
  assert.deepEqual([ref, served], ["tiny", "tiny"], "what runs, however often it is looked at");
  site.setModel("big");
  await site.advance(10);
  assert.deepEqual([site.state("a"), site.slot("a").status.model.ref], ["ready", "big"]);
});

test("a slot that no container engine could run is started once a container engine answers", async () => {
  const image = { engine: "custom", image: "example.test/engine:1", model: { default: "m" } } as const;
  await using site = await new Site().run({ a: image });
  assert.deepEqual([site.state("a"), site.condition("a", "Stalled")], ["error", "True/NoRuntime"]);
  site.runtime.setContainerEngine(true);
  await site.after(10, "a", "ready");
});

test("a request for a slot that is declared again during its deletion is not lost", async () => {
  const spec = custom({ load: "onDemand" });
  await using site = await new Site().run({ a: spec });
  const forget = site.publisher.deleteSlot.bind(site.publisher);
  site.publisher.deleteSlot = async (name) => {
    await forget(name);
    site.source.save("a", spec);
    await site.request("a", "load");
  };
  site.source.delete("a");
  await site.after(5, "a", "ready");
});

for (const isDeath of [false, true]) {
  const how = isDeath ? "when its operator died" : "for a write that failed";
  test(`an engine that was started after an unloading, and not published ${how}, is kept`, async () => {
    await using site = await new Site().run({ a: custom() });
    site.demand.isSlow = true;
    await site.request("a", "restart");
    await site.after(1, "a", "unloading");
    // It is cleared away and that is published; the next engine is started, and that cannot be published.
    site.failAt(3, isDeath);
    site.runtime.kill("a", "main");
    await site.settle();
    if (site.isDead) await site.start();
    await site.advance(60);
    assert.deepEqual([site.state("a"), site.deeds("a")], ["ready", ["start main", "clear main", "start main"]]);
  });
}
