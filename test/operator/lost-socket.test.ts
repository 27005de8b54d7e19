import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom, Site } from "./site.ts";

describe("an engine that was ready and closes its listening socket", () => {
  const again = ["ready", "start main", "stop main", "start main"];
  const seen = (site: Site): string[] => [site.state("a"), ...site.deeds("a")];

  it("is restarted once it is missed for a second", async () => {
    await using site = await new Site().run({ a: custom() }, 70);
    site.runtime.deafen("a");
    await site.settle();
    assert.deepEqual(seen(site), ["ready", "start main"]);
    await site.advance(5);
    const { failures, lastError } = site.slot("a").status;
    assert.deepEqual([...seen(site), failures, lastError?.reason], [...again, 1, "NotListening"]);
  });

  it("is missed by the operator that finds it so, too", async () => {
    await using site = await new Site().run({ a: custom() }, 70);
    await site.end();
    site.runtime.deafen("a");
    await site.start();
    await site.advance(5);
    assert.deepEqual(seen(site), again);
  });

  it("is restarted alone where it is a second process beside a main process that serves", async () => {
    await using site = await new Site().run({ embed: { model: { default: "tiny", rerank: "ranker" } } }, 70);
    site.runtime.deafen("embed", "rerank");
    await site.advance(5);
    assert.deepEqual(site.deeds("embed"), ["start main", "start rerank", "stop rerank", "start rerank"]);
    assert.deepEqual(site.states("embed"), ["starting", "warming", "ready"]);
  });
});

it("a container that somebody pauses is unpaused without a restart, and counted", async () => {
  await using site = await new Site().run({ a: custom() });
  site.runtime.pause("a");
  await site.after(5, "a", "ready", ["start main"]);
  const page = async (): Promise<string> => String((await site.controller.metrics.page.render()).body);
  assert.match(await page(), /^berth_drift_repaired_total\{slot="a",reason="Paused"\} 1$/m);
  site.source.delete("a");
  await site.advance(5);
  assert.doesNotMatch(await page(), /berth_drift_repaired_total\{/);
});
