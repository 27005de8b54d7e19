import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { custom, Site } from "./site.ts";

const of = (replicas: number, more: SlotSpecInput = {}): SlotSpecInput =>
  custom({ replicas, stopSeconds: 20, ...more });

async function siteWith(spec: SlotSpecInput): Promise<Site> {
  const site = new Site();
  site.source.save("a", spec);
  await site.start();
  await site.advance(5);
  return site;
}

const ready = (site: Site): string[] =>
  site.slot("a").status.processes.map(({ ordinal, isReady }) => `${ordinal} ${isReady}`);

/** Advances time in small steps until the slot is loaded again. Returns the smallest number of ready replicas. */
async function fewestReady(site: Site, seconds = 60): Promise<number> {
  let fewest = Infinity;
  for (let at = 0; at < seconds * 20; at++) {
    await site.advance(0.05);
    fewest = Math.min(fewest, site.slot("a").status.processes.filter(({ isReady }) => isReady).length);
    if (at > 0 && site.condition("a", "Ready") === "True/Loaded") return fewest;
  }
  return assert.fail(`not loaded after ${seconds} s: ${JSON.stringify(site.slot("a").status)}`);
}

describe("a slot of several replicas", () => {
  test("runs equal engines but for their ports, and publishes each", async () => {
    await using site = await siteWith(of(3, { env: { KEY: "$(BEARER)" } }));
    assert.deepEqual([site.state("a"), site.condition("a", "Ready")], ["ready", "True/Loaded"]);
    assert.deepEqual(site.deeds("a"), ["start main", "start main-1", "start main-2"]);
    assert.deepEqual(
      site
        .slot("a")
        .status.processes.map(({ role, ordinal, host, port, endpoint }) => [role, ordinal, host, port, endpoint]),
      [0, 1, 2].map((ordinal) => {
        const port = 8081 + ordinal;
        return ["main", ordinal, "127.0.0.1", port, `http://127.0.0.1:${port}`];
      }),
    );
    assert.equal(new Set(site.runtime.deeds.map(({ hash }) => hash)).size, 1);
    const { bearers, bearerList = [] } = site.slot("a");
    assert.deepEqual(
      bearerList.map(({ ordinal }) => ordinal),
      [0, 1, 2],
    );
    assert.deepEqual(bearers, { main: bearerList[0]?.bearer }, "for gateways that know of one");
    assert.equal(site.slot("a").status.port, 8081);
  });

  test("is available from the first that is ready, and ready with the last", async () => {
    await using site = await siteWith(of(1));
    site.source.save("a", of(2));
    await site.advance(0.1);
    assert.deepEqual([site.state("a"), ready(site)], ["ready", ["0 true", "1 false"]]);
    assert.deepEqual(
      [site.condition("a", "Available"), site.condition("a", "Ready")],
      ["True/Loaded", "Unknown/Progressing"],
    );
    await site.advance(5);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", ["0 true", "1 true"]]);
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
    const own = site.slot("a").status.processFailures;
    assert.deepEqual(
      own?.map(({ role, ordinal }) => [role, ordinal]),
      [["main", 1]],
    );
    assert.ok((own?.[0]?.failures ?? 0) >= 4, JSON.stringify(own));
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

  test("is in error only when no replica is left, and is ready again with the first replica", async () => {
    await using site = await siteWith(of(2));
    site.runtime.kill("a", "main", false);
    site.runtime.kill("a", "main-1");
    await site.settle();
    assert.equal(site.state("a"), "error");
    await site.advance(10);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", ["0 true", "1 true"]]);
  });

  test("reports a common obstacle of several replicas once", async () => {
    await using site = await siteWith(of(3));
    for (const name of ["main", "main-1", "main-2"]) {
      site.runtime.kill("a", name);
      await site.advance(0.3);
    }
    assert.equal(
      site.log.some((line) => line.includes("wait")),
      true,
    );
    assert.deepEqual(
      site.log.filter((line) => line.includes("wait, wait")),
      [],
    );
    const waits = site.slot("a").plan.steps.flatMap((step) => (step.do === "wait" ? step.reason : []));
    assert.deepEqual(waits, [...new Set(waits)]);
  });

  test("replaces one after the other on an edit, the highest first, and n - 1 stay ready", async () => {
    await using site = await siteWith(of(3));
    site.source.save("a", of(3, { args: ["--more"] }));
    assert.equal(await fewestReady(site), 2);
    assert.deepEqual(site.deeds("a").slice(3), [
      "stop main-2",
      "start main-2",
      "stop main-1",
      "start main-1",
      "stop main",
      "start main",
    ]);
    assert.deepEqual(site.states("a"), ["starting", "warming", "ready"]);
  });

  test("stops a replica once its own requests have ended, as gateways tell of each", async () => {
    await using site = await siteWith(of(2));
    const endpoints = (
      one: number,
    ): { inFlight: number; endpoints: { role: "main"; ordinal: number; inFlight: number }[] } => ({
      inFlight: 1 + one,
      endpoints: [
        { role: "main", ordinal: 0, inFlight: 1 },
        { role: "main", ordinal: 1, inFlight: one },
      ],
    });
    site.demand.set("a", endpoints(1));
    site.source.save("a", of(2, { args: ["--more"] }));
    await site.advance(10);
    assert.deepEqual([ready(site), site.deeds("a").length], [["0 true", "1 false"], 2], "it is drained, and runs");
    assert.deepEqual(
      site.slot("a").plan.steps.map((step) => [step.do, "ordinal" in step ? step.ordinal : undefined]),
      [
        ["drain", 1],
        ["wait", undefined],
        ["stop", 1],
        ["start", 1],
      ],
    );
    site.demand.set("a", endpoints(0));
    await site.advance(3);
    assert.deepEqual(
      [ready(site), site.deeds("a").slice(2)],
      [
        ["0 false", "1 true"],
        ["stop main-1", "start main-1"],
      ],
    );
    await site.advance(30);
    assert.deepEqual(site.deeds("a").slice(4), ["stop main", "start main"], "the other's request ends with its time");
    assert.equal(site.condition("a", "Ready"), "True/Loaded");
  });

  test("waits for every gateway to let go of a replica before that is stopped", async () => {
    await using site = await siteWith(of(2));
    site.demand.isSlow = true;
    site.demand.set("a", { seenRevision: 1 });
    site.source.save("a", of(2, { args: ["--more"] }));
    await site.advance(15);
    assert.equal(site.deeds("a").length, 2, "no gateway has seen it yet");
    await site.advance(10);
    assert.deepEqual(site.deeds("a").slice(2), ["stop main-1", "start main-1"], "its time is over");
  });

  test("keeps the old replica where the new one does not start", async () => {
    await using site = await siteWith(of(2));
    site.runtime.manner("a").cannotStart = true;
    site.source.save("a", of(2, { args: ["--broken"] }));
    await site.advance(60);
    assert.deepEqual([site.state("a"), ready(site)], ["ready", ["0 true"]]);
    assert.equal(site.condition("a", "Stalled"), "True/StartFailed");
    site.runtime.manner("a").cannotStart = false;
    site.source.save("a", of(2, { args: ["--right"] }));
    assert.equal(await fewestReady(site), 1);
  });

  test("is made larger and smaller without a restart", async () => {
    await using site = await siteWith(of(1));
    site.source.save("a", of(3));
    assert.equal(await fewestReady(site), 1);
    assert.deepEqual(site.deeds("a"), ["start main", "start main-1", "start main-2"]);
    site.source.save("a", of(1));
    await site.advance(10);
    assert.deepEqual(site.deeds("a").slice(3).toSorted(), ["stop main-1", "stop main-2"]);
    assert.deepEqual(
      [site.state("a"), ready(site), site.condition("a", "Ready")],
      ["ready", ["0 true"], "True/Loaded"],
    );
    assert.deepEqual(site.states("a"), ["starting", "warming", "ready"]);
    assert.deepEqual(site.ports.leased.slice(-1), ["8083 a/main-2"]);
    assert.deepEqual([site.ports.holder(8082), site.ports.holder(8083)], [undefined, undefined]);
  });

  test("replaces the remaining replica while surplus replicas still answer", async () => {
    await using site = await siteWith(of(2));
    site.source.save("a", of(1, { args: ["--more"] }));
    assert.equal(await fewestReady(site), 1);
    assert.deepEqual(site.deeds("a").slice(2), ["stop main", "start main", "stop main-1"]);
  });

  test("continues to drain under the next operator, and restarts no other replica", async () => {
    await using site = await siteWith(of(2));
    site.demand.set("a", { inFlight: 1, endpoints: [{ role: "main", ordinal: 1, inFlight: 1 }] });
    site.source.save("a", of(2, { args: ["--more"] }));
    await site.advance(3);
    const since = site.slot("a").status.processes[1]?.drainingSince;
    assert.notEqual(since, undefined);
    await site.start();
    await site.advance(1);
    assert.equal(site.slot("a").status.processes[1]?.drainingSince, since);
    assert.equal(site.deeds("a").length, 2);
    site.demand.set("a", { inFlight: 0, endpoints: [] });
    assert.equal(await fewestReady(site), 1);
    assert.equal(site.deeds("a").length, 6);
  });

  test("keeps a replica that fails its probes while the others answer, and ends it when its request has ended", async () => {
    await using site = await siteWith(of(2));
    const lastByteAt = site.clock.now().toISOString();
    site.demand.set("a", { inFlight: 1, endpoints: [{ role: "main", ordinal: 1, inFlight: 1, lastByteAt }] });
    const port = site.runtime.portOf("a", "main-1");
    site.runtime.failing.add(port ?? 0);
    await site.advance(20);
    assert.deepEqual([site.state("a"), ready(site), site.deeds("a").length], ["ready", ["0 true", "1 false"], 2]);
    site.demand.set("a", { inFlight: 0, endpoints: [] });
    site.runtime.failing.clear();
    await site.advance(10);
    assert.deepEqual(ready(site), ["0 true", "1 true"]);
  });

  test("ends a replica that hangs while it drains, also where no other replica answers any more", async () => {
    await using site = await siteWith(of(2));
    const lastByteAt = site.clock.now().toISOString();
    site.demand.set("a", { inFlight: 1, endpoints: [{ role: "main", ordinal: 1, inFlight: 1, lastByteAt }] });
    site.source.save("a", of(2, { args: ["--more"] }));
    await site.advance(1);
    site.runtime.failing.add(site.runtime.portOf("a", "main-1") ?? 0);
    site.runtime.manner("a").crashAfterMs = 5;
    site.runtime.kill("a", "main");
    await site.advance(60);
    assert.deepEqual(site.states("a"), ["starting", "warming", "ready"], "its request may still be answered");
    assert.equal(site.deeds("a").includes("stop main-1"), false);
    site.demand.set("a", { inFlight: 0, endpoints: [] });
    await site.advance(10);
    assert.ok(site.deeds("a").includes("stop main-1"), "nobody waits for it any more");
    site.runtime.manner("a").crashAfterMs = undefined;
    site.runtime.failing.clear();
    await site.advance(300);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", ["0 true", "1 true"]]);
  });

  test("does not fail where a replica that an earlier operator was replacing ends after that operator", async () => {
    await using site = await siteWith(of(2));
    site.runtime.beforeRemoval = new Promise(() => undefined);
    site.source.save("a", of(2, { args: ["--more"] }));
    await site.turn();
    await site.turn();
    assert.notEqual(site.slot("a").status.processes[1]?.drainingSince, undefined);
    await site.end();
    site.runtime.kill("a", "main-1");
    site.runtime.beforeRemoval = undefined;
    await site.start();
    assert.equal(await fewestReady(site), 1);
    const { restarts, failures, lastError, processFailures } = site.slot("a").status;
    assert.deepEqual([restarts, failures, lastError, processFailures], [0, 0, undefined, undefined]);
  });

  test("does not fail where a replica cannot be stopped after its operator has ended", async () => {
    await using site = await siteWith(of(2));
    const removal = Promise.withResolvers<void>();
    site.runtime.beforeRemoval = removal.promise;
    site.source.save("a", of(2, { enabled: false }));
    for (let turn = 0; turn < 5; turn++) {
      await site.turn();
      site.clock.step(site.clock.now().getTime() + 1000);
    }
    await site.turn();
    await site.end();
    removal.reject(new Error("the daemon is gone"));
    // An unhandled rejection would end the operator's program, and fails this test.
    await new Promise((resolve) => setImmediate(resolve));
    site.runtime.beforeRemoval = undefined;
  });

  test("runs as many replicas as there are ports, and publishes that", async () => {
    await using site = new Site();
    for (let port = 8083; port <= 8088; port++) site.runtime.strangers.add(port);
    site.source.save("a", of(3));
    await site.start();
    await site.advance(5);
    assert.deepEqual([site.state("a"), ready(site)], ["ready", ["0 true", "1 true"]]);
    assert.equal(site.condition("a", "Ready"), "False/NoFreePort");
    site.runtime.strangers.clear();
    await site.advance(10);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", ["0 true", "1 true", "2 true"]]);
  });

  test("is unloaded and loaded as a whole", async () => {
    await using site = await siteWith(of(2));
    await site.request("a", "unload");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.deeds("a").slice(2).toSorted()], ["offline", ["stop main", "stop main-1"]]);
    await site.request("a", "load");
    await site.advance(5);
    assert.deepEqual([site.condition("a", "Ready"), ready(site)], ["True/Loaded", ["0 true", "1 true"]]);
  });

  test("restarts its replicas one after the other on request", async () => {
    await using site = await siteWith(of(2));
    await site.advance(1);
    await site.request("a", "restart");
    assert.equal(await fewestReady(site), 1);
    await site.advance(5);
    assert.deepEqual(site.deeds("a").slice(2), ["stop main-1", "start main-1", "stop main", "start main"]);
    assert.deepEqual(site.requests.list("a"), []);
  });

  test("shares the cores among its replicas, and a second role has no replicas", async () => {
    await using site = new Site();
    site.source.save("embed", { model: { default: "tiny", rerank: "ranker" }, replicas: 2 });
    await site.start();
    await site.advance(5);
    assert.deepEqual(site.deeds("embed"), ["start main", "start main-1", "start rerank"]);
    assert.equal(site.slot("embed").status.decisions["threads"]?.value, "1", "three cores among three processes");
  });
});
