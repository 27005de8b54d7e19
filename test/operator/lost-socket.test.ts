import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { completeSlot, slotSpecSchema } from "../../src/api/slot.ts";
import { HealthRecords } from "../../src/operator/observe/health.ts";
import { epoch, later, observed, published } from "./fixture.ts";
import { custom, Site } from "./site.ts";

describe("an engine that was ready and closes its listening socket", () => {
  it("is restarted once it is missed for a second", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(70);
    assert.equal(site.state("a"), "ready");
    site.runtime.deafen("a");
    await site.settle();
    assert.deepEqual(site.deeds("a"), ["start main"]);
    await site.advance(5);
    assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main"]);
    assert.equal(site.state("a"), "ready");
    assert.equal(site.slot("a").status.failures, 1);
    assert.equal(site.slot("a").status.lastError?.reason, "NotListening");
  });

  it("completes its answers, as when it is unloaded, and counts as failed", async () => {
    await using site = new Site();
    site.source.save("a", custom({ stopSeconds: 20 }));
    await site.start();
    await site.advance(70);
    site.demand.set("a", { inFlight: 1, lastRequestAt: site.clock.now().toISOString() });
    site.runtime.deafen("a");
    await site.advance(10);
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["unloading", "start main"]);
    site.demand.set("a", { inFlight: 0 });
    await site.advance(2);
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["ready", "start main", "stop main", "start main"]);
    assert.deepEqual([site.slot("a").status.failures, site.slot("a").status.restarts], [1, 1]);
  });

  it("is ended at once where another program has its port, and starts on another port", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(70);
    const port = site.runtime.portOf("a");
    assert.ok(port !== undefined);
    site.demand.set("a", { inFlight: 1, lastRequestAt: site.clock.now().toISOString() });
    site.runtime.strangers.add(port);
    site.runtime.deafen("a");
    await site.settle();
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["error", "start main", "stop main"]);
    await site.advance(2);
    assert.equal(site.state("a"), "ready");
    assert.notEqual(site.runtime.portOf("a"), port);
  });

  it("is missed by the operator that finds it so, too", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(70);
    await site.end();
    site.runtime.deafen("a");
    await site.start();
    await site.advance(5);
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["ready", "start main", "stop main", "start main"]);
  });

  it("is restarted alone where it is a second process beside a main process that serves", async () => {
    await using site = new Site();
    site.source.save("embed", { model: { default: "tiny", rerank: "ranker" }, engine: "llama" });
    await site.start();
    await site.advance(70);
    assert.deepEqual(site.deeds("embed"), ["start main", "start rerank"]);
    site.runtime.deafen("embed", "rerank");
    await site.advance(5);
    assert.deepEqual(site.deeds("embed"), ["start main", "start rerank", "stop rerank", "start rerank"]);
    assert.deepEqual(site.states("embed"), ["starting", "warming", "ready"]);
  });
});

describe("a container that somebody pauses", () => {
  it("is unpaused without a restart, and counted", async () => {
    await using site = new Site();
    site.source.save("a", custom());
    await site.start();
    await site.advance(5);
    site.runtime.pause("a");
    await site.advance(5);
    assert.deepEqual([site.state("a"), ...site.deeds("a")], ["ready", "start main"]);
    const page = async (): Promise<string> => String((await site.controller.metrics.page.render()).body);
    assert.match(await page(), /^berth_drift_repaired_total\{slot="a",reason="Paused"\} 1$/m);
    site.source.delete("a");
    await site.advance(5);
    assert.doesNotMatch(await page(), /berth_drift_repaired_total\{/);
  });
});

describe("health", () => {
  it("of an engine whose socket is open again stays the same", async () => {
    using health = new HealthRecords(async () => ({ outcome: "healthy" }));
    const spec = completeSlot("primary", slotSpecSchema.parse({ model: { default: "tiny" } }));
    const look = async (isListening: boolean, seconds: number): Promise<readonly unknown[]> => {
      const target = { path: "/health", warmUp: undefined };
      const [process, now] = [observed({ isListening }), later(seconds)];
      const { probeDue } = health.stateOf(process, spec, published(), now);
      if (probeDue !== undefined) await health.probe(process, target, { ...probeDue, timeoutMs: 3000, now });
      const { isWarm, lostAt } = health.stateOf(process, spec, published(), now);
      return [isWarm, lostAt === undefined];
    };
    assert.deepEqual(await look(true, 0), [true, true]);
    assert.deepEqual(await look(false, 1), [true, false]);
    assert.deepEqual(await look(true, 2), [true, true]);
    // A pause is put right, and no loss.
    const paused = observed({ isListening: false, drift: { reason: "Paused", message: "" } });
    assert.equal(health.stateOf(paused, spec, undefined, epoch).lostAt, undefined);
  });
});
