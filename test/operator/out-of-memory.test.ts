import assert from "node:assert/strict";
import { test } from "node:test";
import { custom, Site } from "./site.ts";

const words =
  "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 81920.00 MiB on device 0: cudaMalloc failed: out of memory";

/** `big` is refused memory each time that it loads; `other` is loaded beside it. */
async function crowded(): Promise<Site> {
  const site = new Site();
  Object.assign(site.runtime.manner("big"), { crashAfterMs: 100, loadMs: 5000, lastOutput: words });
  await site.run({ other: custom() });
  site.source.save("big", custom());
  await site.advance(60);
  return site;
}
const starts = (site: Site): number => site.deeds("big").filter((deed) => deed === "start main").length;

test("memory that ran out has its own reason, and weights are not loaded again and again", async () => {
  await using site = await crowded();
  const { state, lastError, nextRetryAt } = site.slot("big").status;
  assert.deepEqual([state, site.condition("big", "Stalled"), starts(site)], ["error", "True/OutOfMemory", 1]);
  assert.match(lastError?.message ?? "", /allocating 81920\.00 MiB on device 0: cudaMalloc failed: out of memory;/);
  assert.equal(nextRetryAt, undefined);
  await site.start();
  await site.advance(60);
  assert.equal(starts(site), 1, "nor by the next operator");
});

for (const [what, change] of [
  ["an edit", async (site: Site) => site.source.save("big", custom({ idleSeconds: 7 }))],
  ["a restart that was asked for", async (site: Site) => site.request("big", "restart")],
  ["another slot's unload", async (site: Site) => site.request("other", "unload")],
  ["another slot's removal", async (site: Site) => site.source.delete("other")],
] as const) {
  test(`a slot that ran out of memory is loaded again after ${what}`, async () => {
    await using site = await crowded();
    Object.assign(site.runtime.manner("big"), { crashAfterMs: undefined, loadMs: 100 });
    await change(site);
    await site.advance(60);
    assert.deepEqual([site.state("big"), starts(site)], ["ready", 2]);
  });
}

test("two slots that both lack memory do not wake each other", async () => {
  await using site = await crowded();
  Object.assign(site.runtime.manner("third"), { crashAfterMs: 100, loadMs: 5000, lastOutput: words });
  site.source.save("third", custom());
  await site.advance(60);
  assert.deepEqual([starts(site), site.condition("third", "Stalled")], [1, "True/OutOfMemory"]);
});

test("a clock that is set back loads a slot that lacked memory once more, not again and again", async () => {
  await using site = await crowded();
  await site.request("other", "unload");
  await site.advance(60);
  const before = starts(site);
  site.clock.set(-6 * 3_600_000);
  site.publisher.isClockSetBack = true;
  await site.controller.resync();
  await site.advance(120);
  assert.deepEqual([starts(site) - before, site.condition("big", "Stalled")], [1, "True/OutOfMemory"]);
});

test("an engine that was ready and then ran out starts again, as after any crash", async () => {
  await using site = new Site();
  Object.assign(site.runtime.manner("big"), { crashAfterMs: 70_000, lastOutput: words });
  await site.run({ big: custom() }, 75);
  assert.deepEqual([site.state("big"), starts(site)], ["ready", 2]);
  assert.equal(site.slot("big").status.lastError?.reason, "OutOfMemory");
});
