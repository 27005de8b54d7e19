import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { custom, Site } from "./site.ts";

const of = (replicas: number, more: SlotSpecInput = {}): SlotSpecInput =>
  custom({ replicas, stopSeconds: 20, ...more });

const edited = (replicas: number): SlotSpecInput => of(replicas, { args: ["--more"] });
const siteWith = async (spec: SlotSpecInput): Promise<Site> => await new Site().run({ a: spec });

const ready = (site: Site): string[] =>
  site.slot("a").status.processes.map(({ ordinal, isReady }) => `${ordinal} ${isReady}`);

/** Advances time until the slot is loaded again. Returns the smallest number of ready replicas that was published. */
async function fewestReady(site: Site): Promise<number> {
  const count = (): number => site.slot("a").status.processes.filter(({ isReady }) => isReady).length;
  let fewest = count();
  const { onWrite } = site.publisher;
  site.publisher.onWrite = (slot) => {
    fewest = Math.min(fewest, count());
    onWrite(slot);
  };
  for (let second = 0; second < 60; second++) {
    await site.advance(1);
    if (site.condition("a", "Ready") === "True/Loaded") return fewest;
  }
  return assert.fail(`not loaded after a minute: ${JSON.stringify(site.slot("a").status)}`);
}

/** One request is in flight at the second replica. */
function busy(site: Site, more: { lastByteAt?: string } = {}): void {
  site.demand.set("a", { inFlight: 1, endpoints: [{ role: "main", ordinal: 1, inFlight: 1, ...more }] });
}
const both = ["0 true", "1 true"];
const oneReplaced = ["stop main-1", "start main-1"];
const nobody = { inFlight: 0, endpoints: [] };

describe("a slot of several replicas", () => {
  test("runs equal engines but for their ports, and publishes each", async () => {
    await using site = await siteWith(of(3, { env: { KEY: "$(BEARER)" } }));
    assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["ready", "True/Loaded"]);
    assert.deepEqual(site.deeds("a"), ["start main", "start main-1", "start main-2"]);
    const { status, bearerList = [], ...shown } = site.slot("a");
    assert.deepEqual(
      status.processes.map(({ role, ordinal, endpoint }) => `${role} ${ordinal} ${endpoint}`),
      [0, 1, 2].map((ordinal) => `main ${ordinal} http://127.0.0.1:${8081 + ordinal}`),
    );
    assert.equal(new Set(site.runtime.deeds.map(({ hash }) => hash)).size, 1);
    assert.deepEqual(
      bearerList.map(({ ordinal }) => ordinal),
      [0, 1, 2],
    );
    assert.doesNotMatch(JSON.stringify([status, shown]), /bearer-/);
    assert.equal(status.port, 8081);
  });

  test("restarts a replica that ends alone, without effect on the others", async () => {
    await using site = await siteWith(of(3));
    site.runtime.kill("a", "main-1");
    await site.settle();
    assert.deepEqual([site.state("a"), ready(site)], ["ready", ["0 true", "2 true"]]);
    assert.equal(site.condition("a", "Available"), "True/Loaded");
    assert.equal(await fewestReady(site), 2);
    assert.deepEqual(site.deeds("a").slice(3), ["clear main-1", "start main-1"]);
    assert.equal(site.slot("a").status.restarts, 1);
  });

  test("has a back-off for each: a replica that crashes again and again hides no other", async () => {
    await using site = await siteWith(of(2));
    for (let crash = 0; crash < 5; crash++) {
      site.runtime.kill("a", "main-1");
      await site.advance(0.5);
      await site.advance(site.runtime.running("a").includes("main-1") ? 0 : 20);
    }
    site.runtime.kill("a", "main-1");
    await site.settle();
    const [own, ...others] = site.slot("a").status.processFailures ?? [];
    assert.deepEqual([own?.role, own?.ordinal, others], ["main", 1, []]);
    assert.ok((own?.failures ?? 0) >= 4, JSON.stringify(own));
    assert.deepEqual([site.state("a"), site.condition("a", "Ready")?.split("/")[0]], ["ready", "False"]);
    site.runtime.kill("a", "main");
    await site.settle();
    assert.deepEqual(site.states("a").slice(-2), ["error", "starting"], "it had been ready for long: at once");
    site.runtime.kill("a", "main");
    await site.settle();
    assert.equal(site.state("a"), "error");
    const retryAt = Date.parse(site.slot("a").status.nextRetryAt ?? "");
    assert.ok(retryAt - site.clock.now().getTime() <= 4000, "the slot is back when its first replica is");
    assert.ok(site.slot("a").status.failures < 3, "callers go by the one that failed least");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.runtime.running("a")], ["ready", ["main"]]);
    await site.advance(300);
    assert.equal(site.condition("a", "Ready"), "True/Loaded");
    assert.equal(site.slot("a").status.processFailures, undefined, "what was got over is history");
  });

  test("starts all at once that end together, and is not ready meanwhile", async () => {
    await using site = await siteWith(of(3));
    await site.advance(60);
    for (const name of ["main", "main-1", "main-2"]) site.runtime.kill("a", name);
    await site.advance(0.5);
    assert.deepEqual(site.states("a").slice(2), ["ready", "error", "starting", "warming", "ready"]);
    assert.deepEqual([site.slot("a").status.restarts, ready(site)], [3, [...both, "2 true"]]);
  });

  test("is not ready where all have lost their sockets and end their requests, and decides once a second", async () => {
    await using site = await siteWith(of(2));
    const endpoints = [0, 1].map((ordinal) => ({ role: "main" as const, ordinal, inFlight: 1 }));
    site.demand.set("a", { inFlight: 2, endpoints });
    let decisions = 0;
    const { runtime } = site;
    const observe = runtime.observe.bind(runtime);
    runtime.observe = async (...slot) => {
      decisions += 1;
      return await observe(...slot);
    };
    for (const name of ["main", "main-1"]) runtime.deafen("a", name);
    await site.advance(10);
    assert.deepEqual([site.state("a"), ready(site), site.deeds("a").length], ["error", ["0 false", "1 false"], 2]);
    assert.ok(decisions < 20, `${decisions} decisions`);
    site.demand.set("a", nobody);
    await site.advance(10);
    assert.deepEqual(ready(site), both);
  });

  for (const [what, act] of [
    ["an edit", async (site: Site) => site.source.save("a", edited(3))],
    ["a restart request", async (site: Site) => site.request("a", "restart")],
  ] as const) {
    test(`replaces one after the other for ${what}, the highest first, and n - 1 stay ready`, async () => {
      await using site = await siteWith(of(3));
      await act(site);
      assert.equal(await fewestReady(site), 2);
      await site.advance(5);
      const replaced = ["main-2", "main-1", "main"].flatMap((name) => [`stop ${name}`, `start ${name}`]);
      assert.deepEqual([site.deeds("a").slice(3), site.requests.list("a")], [replaced, []]);
      assert.deepEqual(site.states("a"), ["starting", "warming", "ready"]);
    });
  }

  test("stops a replica once its own requests have ended, as gateways tell of each", async () => {
    await using site = await siteWith(of(2));
    const endpoints = [0, 1].map((ordinal) => ({ role: "main" as const, ordinal, inFlight: 1 }));
    site.demand.set("a", { inFlight: 2, endpoints });
    site.source.save("a", edited(2));
    await site.advance(10);
    assert.deepEqual([ready(site), site.deeds("a").length], [["0 true", "1 false"], 2], "it is drained, and runs");
    assert.deepEqual(
      site.slot("a").plan.steps.map((step) => ("ordinal" in step ? `${step.do} ${step.ordinal}` : step.do)),
      ["drain 1", "wait", "stop 1", "start 1"],
    );
    site.demand.set("a", { inFlight: 1, endpoints: endpoints.slice(0, 1) });
    await site.advance(3);
    assert.deepEqual([...ready(site), ...site.deeds("a").slice(2)], ["0 false", "1 true", ...oneReplaced]);
    await site.advance(30);
    assert.deepEqual(site.deeds("a").slice(4), ["stop main", "start main"], "the other's request ends with its time");
    assert.equal(site.condition("a", "Ready"), "True/Loaded");
  });

  test("keeps the old replica where the new one does not start", async () => {
    await using site = await siteWith(of(2));
    site.runtime.manner("a").cannotStart = true;
    site.source.save("a", edited(2));
    await site.advance(60);
    assert.deepEqual([site.state("a"), ready(site)], ["ready", ["0 true"]]);
    assert.equal(site.condition("a", "Stalled"), "True/StartFailed");
    site.runtime.manner("a").cannotStart = false;
    site.source.save("a", of(2, { args: ["--right"] }));
    assert.equal(await fewestReady(site), 1);
  });

  test("is made larger and smaller without a restart, and is available all the time", async () => {
    await using site = await siteWith(of(1));
    site.source.save("a", of(3));
    await site.advance(0.1);
    assert.deepEqual([site.state("a"), ready(site)], ["ready", ["0 true", "1 false", "2 false"]]);
    const conditions = (): unknown[] => [site.condition("a", "Available"), site.condition("a", "Ready")];
    assert.deepEqual(conditions(), ["True/Loaded", "Unknown/Progressing"]);
    assert.equal(await fewestReady(site), 1);
    assert.deepEqual(site.deeds("a"), ["start main", "start main-1", "start main-2"]);
    site.source.save("a", of(1));
    await site.advance(10);
    assert.deepEqual(site.deeds("a").slice(3).toSorted(), ["stop main-1", "stop main-2"]);
    assert.deepEqual([ready(site), ...conditions()], [["0 true"], "True/Loaded", "True/Loaded"]);
    assert.deepEqual(site.states("a"), ["starting", "warming", "ready"]);
    assert.deepEqual(site.ports.leased.slice(-1), ["8083 a/main-2"]);
    assert.deepEqual([site.ports.holder(8082), site.ports.holder(8083)], [undefined, undefined]);
  });

  test("replaces the remaining replica while surplus replicas still answer", async () => {
    await using site = await siteWith(of(2));
    site.source.save("a", edited(1));
    assert.equal(await fewestReady(site), 1);
    assert.deepEqual(site.deeds("a").slice(2), ["stop main", "start main", "stop main-1"]);
  });

  test("continues to drain under the next operator, and restarts no other replica", async () => {
    await using site = await siteWith(of(2));
    busy(site);
    site.source.save("a", edited(2));
    await site.advance(3);
    const since = site.slot("a").status.processes[1]?.drainingSince;
    assert.notEqual(since, undefined);
    await site.start();
    await site.advance(1);
    assert.deepEqual([site.slot("a").status.processes[1]?.drainingSince, site.deeds("a").length], [since, 2]);
    site.demand.set("a", nobody);
    assert.equal(await fewestReady(site), 1);
    assert.equal(site.deeds("a").length, 6);
  });

  test("keeps a replica that fails its probes while the others answer, and ends it when its request has ended", async () => {
    await using site = await siteWith(of(2));
    busy(site, { lastByteAt: site.clock.now().toISOString() });
    site.runtime.failing.add(site.runtime.portOf("a", "main-1") ?? 0);
    await site.advance(20);
    assert.deepEqual([site.state("a"), ready(site), site.deeds("a").length], ["ready", ["0 true", "1 false"], 2]);
    site.demand.set("a", nobody);
    site.runtime.failing.clear();
    await site.advance(10);
    assert.deepEqual(ready(site), both);
  });

  test("ends a replica that hangs while it drains, also where no other replica answers any more", async () => {
    await using site = await siteWith(of(2));
    busy(site, { lastByteAt: site.clock.now().toISOString() });
    site.source.save("a", edited(2));
    await site.advance(1);
    site.runtime.failing.add(site.runtime.portOf("a", "main-1") ?? 0);
    site.runtime.manner("a").crashAfterMs = 5;
    site.runtime.kill("a", "main");
    await site.advance(60);
    assert.deepEqual(site.states("a"), ["starting", "warming", "ready"], "its request may still be answered");
    assert.equal(site.deeds("a").includes("stop main-1"), false);
    site.demand.set("a", nobody);
    await site.advance(10);
    assert.ok(site.deeds("a").includes("stop main-1"), "nobody waits for it any more");
    site.runtime.manner("a").crashAfterMs = undefined;
    site.runtime.failing.clear();
    await site.advance(300);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", both]);
  });

  test("continues where an effect on one of them fails, whichever it is, and the others stay in service", async () => {
    for (let effect = 0; effect < 4; effect++) {
      await using site = await siteWith(of(2));
      site.failAt(effect, false);
      site.runtime.kill("a", "main-1");
      await site.advance(30);
      assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", both], `effect ${effect}`);
      assert.deepEqual(site.states("a"), ["starting", "warming", "ready"], `effect ${effect}`);
    }
  });

  test("replaces replicas that still load at once", async () => {
    await using site = await siteWith(of(2));
    site.runtime.manner("a").loadMs = 60_000;
    site.runtime.kill("a", "main", false);
    site.runtime.kill("a", "main-1");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.runtime.running("a")], ["warming", ["main", "main-1"]]);
    const before = site.deeds("a").length;
    site.source.save("a", edited(2));
    await site.advance(1);
    const replaced = ["start main", "start main-1", "stop main", "stop main-1"];
    assert.deepEqual(site.deeds("a").slice(before).toSorted(), replaced);
  });

  test("runs as many replicas as there are ports, and publishes that", async () => {
    await using site = new Site();
    for (let port = 8083; port <= 8088; port++) site.runtime.strangers.add(port);
    await site.run({ a: of(3) });
    assert.deepEqual([site.state("a"), site.condition("a", "Ready"), ready(site)], ["ready", "False/NoFreePort", both]);
    site.runtime.strangers.clear();
    await site.advance(10);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", [...both, "2 true"]]);
  });
});
