import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom, Site } from "../site.ts";

const member = custom({ load: "onDemand", idleSeconds: 600, group: "gpu" });

/** Demand of a gateway at which a request for the slot waits. */
function ask(site: Site, slot: string, more: { held?: number; inFlight?: number } = { held: 1 }): void {
  site.demand.set(slot, { held: 0, inFlight: 0, ...more, lastRequestAt: site.clock.now().toISOString() });
}

function done(site: Site, slot: string): void {
  site.demand.set(slot, { held: 0, inFlight: 0 });
}

async function grouped(rules: { maxWaitSeconds?: number; minResidencySeconds?: number } = {}): Promise<Site> {
  const site = new Site();
  site.source.group("gpu", { minResidencySeconds: 10, maxWaitSeconds: 60, ...rules });
  for (const slot of ["a", "b"]) site.source.save(slot, member);
  await site.start();
  return site;
}

/** How many engines of the group ran at once, at most. */
function mostAtOnce(site: Site): number {
  let [now, most] = [0, 0];
  for (const { did } of site.runtime.deeds) {
    now += did === "start" ? 1 : -1;
    most = Math.max(most, now);
  }
  return most;
}

describe("a group that no file declares", () => {
  it("is told once, with the files that name it and what to do", async () => {
    await using site = new Site();
    for (const slot of ["b", "a"]) site.source.save(slot, member);
    await site.start();
    for (const slot of ["a", "b", "a"]) {
      ask(site, slot);
      await site.advance(30);
      done(site, slot);
    }
    const lines = site.log.filter((line) => line.includes("no file declares"));
    assert.equal(lines.length, 1, lines.join(""));
    assert.match(
      lines[0] ?? "",
      /no file declares group gpu: its slots share the memory of their devices: a \(\S*a\.toml\), b \(\S*b\.toml\); give it a budget in groups\/gpu\.toml, a SlotGroup \(docs\/groups\.md\), or take the group out of these slots/,
    );
  });
});

describe("a group with a single place", () => {
  it("makes the second slot wait, names the slot that has the place, and grants the place once the first is idle", async () => {
    await using site = await grouped();
    ask(site, "a");
    await site.advance(2);
    ask(site, "a", { inFlight: 1 });
    ask(site, "b");
    await site.advance(20);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "offline"]);
    assert.deepEqual(site.slot("b").plan, {
      reason: "GroupFull",
      message: "group gpu is full: a has its place",
      steps: [{ do: "wait", reason: "group gpu is full: a has its place" }],
    });
    assert.deepEqual(
      ["Ready", "Available", "Reconciling"].map((type) => site.condition("b", type)),
      ["Unknown/GroupFull", "False/GroupFull", "True/GroupFull"],
    );
    done(site, "a");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "ready"]);
    assert.deepEqual(site.slot("a").status.transitions.at(-2)?.message, "slot b waits for its place in group gpu");
    assert.equal(site.slot("a").plan.message, "it left for another slot of its group; the next request loads it");
    assert.equal(mostAtOnce(site), 1);
  });

  it("does not give the place back to the evicted slot without a new request", async () => {
    await using site = await grouped();
    ask(site, "a");
    await site.advance(12);
    done(site, "a");
    ask(site, "b");
    await site.advance(5);
    done(site, "b");
    await site.advance(300);
    assert.deepEqual([...site.deeds("a"), ...site.deeds("b")], ["start main", "stop main", "start main"]);
    ask(site, "a");
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "offline"]);
  });

  it("lets a busy slot end its requests in flight once the other has waited its bound, however long they take", async () => {
    await using site = await grouped({ maxWaitSeconds: 20 });
    ask(site, "a");
    await site.advance(5);
    ask(site, "a", { inFlight: 2 });
    ask(site, "b");
    await site.advance(18);
    assert.equal(site.state("a"), "ready");
    await site.advance(4);
    assert.equal(site.state("a"), "unloading");
    assert.deepEqual(
      site.slot("a").plan.steps.map((step) => ("deadline" in step ? `${step.do} ${step.deadline ?? ""}` : step.do)),
      ["drain", "stop"],
    );
    // Far longer than stopSeconds.
    await site.advance(300);
    assert.deepEqual([site.state("a"), ...site.runtime.running("a")], ["unloading", "main"]);
    // Its gateway holds what came meanwhile.
    ask(site, "a", { held: 3 });
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "ready"]);
    done(site, "b");
    await site.advance(12);
    assert.deepEqual([site.state("a"), site.state("b"), mostAtOnce(site)], ["ready", "offline", 1]);
  });

  it("does not wait longer for an engine that hangs than it would without another slot", async () => {
    await using site = await grouped({ maxWaitSeconds: 20 });
    ask(site, "a");
    await site.advance(5);
    const lastByteAt = site.clock.now().toISOString();
    const busy = { held: 0, inFlight: 1, lastRequestAt: lastByteAt, lastByteAt };
    site.demand.set("a", busy);
    ask(site, "b");
    await site.advance(25);
    assert.equal(site.state("a"), "unloading");
    site.runtime.failing.add(site.runtime.portOf("a") ?? 0);
    await site.advance(200);
    assert.equal(site.state("a"), "unloading", "it may still answer");
    await site.advance(100);
    assert.deepEqual([site.runtime.running("a"), site.runtime.running("b"), mostAtOnce(site)], [[], ["main"], 1]);
  });

  it("evicts no slot that still loads", async () => {
    await using site = await grouped({ maxWaitSeconds: 5, minResidencySeconds: 0 });
    site.runtime.manner("a").loadMs = 120_000;
    ask(site, "a");
    await site.advance(1);
    ask(site, "b");
    await site.advance(100);
    assert.deepEqual([site.state("a"), site.state("b")], ["warming", "offline"]);
    await site.advance(20);
    done(site, "a");
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "ready"]);
  });

  it("continues with the next slot where one cannot be loaded", async () => {
    await using site = await grouped();
    site.runtime.manner("a").crashAfterMs = 10;
    ask(site, "a");
    ask(site, "b");
    await site.advance(5);
    assert.deepEqual([site.slot("a").status.failures > 0, site.state("b")], [true, "ready"]);
    done(site, "b");
    site.runtime.manner("a").crashAfterMs = undefined;
    await site.advance(30);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "offline"]);
  });

  it("gives the place to the next where an engine hangs before it listens, and says how long that takes at most", async () => {
    await using site = await grouped();
    const probe = { startupSeconds: 40 };
    site.source.save("a", custom({ load: "onDemand", idleSeconds: 600, group: "gpu", probe }));
    site.runtime.manner("a").startMs = 3_600_000;
    ask(site, "a");
    await site.advance(1);
    ask(site, "b");
    await site.advance(30);
    assert.equal(site.slot("b").plan.message, "group gpu is full: a has its place; a still loads, for 40 s at most");
    await site.advance(15);
    assert.deepEqual([site.slot("a").status.lastError?.reason, site.state("b")], ["StartupTimeout", "ready"]);
    // It comes behind the others, and does not take the place again before they have had their turn.
    assert.deepEqual(site.deeds("a"), ["start main", "stop main"]);
    assert.equal(mostAtOnce(site), 1);
  });

  it("reports to a slot that waits behind a pinned slot that the pinned slot stays", async () => {
    await using site = await grouped();
    site.source.save("a", custom({ load: "onDemand", idleSeconds: 100, group: "gpu", pinned: true }));
    ask(site, "a");
    await site.advance(2);
    done(site, "a");
    ask(site, "b");
    await site.advance(80);
    assert.equal(
      site.slot("b").plan.message,
      "group gpu is full: a has its place; a is pinned, and leaves only when it is idle for its own idle time",
    );
    await site.advance(25);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "ready"]);
  });

  it("checks memory only when the slot has its place: the other slot's memory is no reason to refuse it", async () => {
    await using site = await grouped({ minResidencySeconds: 0 });
    const refusal = { reason: "NoMemory", message: "4 GiB of 9 GiB are free" };
    site.fit = {
      ...site.fit,
      estimate: async ({ engineInput }) =>
        ["a", "b"].some((other) => other !== engineInput.slot && site.runtime.running(other).length > 0)
          ? { refusal }
          : {},
    };
    await site.start();
    ask(site, "a");
    await site.advance(5);
    done(site, "a");
    ask(site, "b");
    await site.advance(5);
    assert.deepEqual(site.states("b"), ["starting", "warming", "ready"]);
    assert.deepEqual([site.state("a"), mostAtOnce(site)], ["offline", 1]);
  });

  it("makes the other slot leave for a slot that then lacks memory, and does so once", async () => {
    await using site = await grouped({ minResidencySeconds: 0 });
    const refusal = { reason: "NoMemory", message: "it needs 12 GiB" };
    site.fit = { ...site.fit, estimate: async ({ engineInput }) => (engineInput.slot === "b" ? { refusal } : {}) };
    await site.start();
    ask(site, "a");
    await site.advance(5);
    done(site, "a");
    ask(site, "b");
    await site.advance(5);
    // What a had may not be free at once.
    assert.deepEqual([site.state("a"), site.condition("b", "Available")], ["offline", "False/MemoryHeld"]);
    await site.advance(7);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "error"]);
    assert.equal(site.slot("b").status.lastError?.reason, "NoMemory");
    ask(site, "a");
    await site.advance(5);
    assert.equal(site.state("a"), "ready");
    for (let minute = 0; minute < 2; minute++) {
      done(site, "a");
      await site.advance(55);
      ask(site, "a");
      await site.advance(5);
    }
    const starts = site.deeds("a").filter((deed) => deed === "start main").length;
    assert.ok(starts <= 6, `${starts} starts`);
  });

  it("makes no slot leave for a slot that the device is too small for", async () => {
    await using site = await grouped({ minResidencySeconds: 0 });
    const refusal = { reason: "DoesNotFit", message: "it needs 120 GiB" };
    site.fit = { ...site.fit, estimate: async ({ engineInput }) => (engineInput.slot === "b" ? { refusal } : {}) };
    await site.start();
    ask(site, "a");
    await site.advance(5);
    done(site, "a");
    ask(site, "b");
    await site.advance(30);
    assert.deepEqual([site.state("a"), site.state("b"), ...site.deeds("a")], ["ready", "error", "start main"]);
    assert.equal(site.condition("b", "Stalled"), "True/DoesNotFit");
  });

  it("waits for memory that a driver releases late, and does not fail the slot that gets it", async () => {
    await using site = await grouped({ minResidencySeconds: 0 });
    let isFree = true;
    const refusal = { reason: "NoMemory", message: "4 GiB of 9 GiB are free" };
    site.fit = {
      ...site.fit,
      estimate: async ({ engineInput, isDue }) => (engineInput.slot === "b" && isDue && !isFree ? { refusal } : {}),
    };
    await site.start();
    ask(site, "a");
    await site.advance(5);
    isFree = false;
    done(site, "a");
    ask(site, "b");
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "offline"]);
    // A third one that asks meanwhile does not get the place.
    site.source.save("c", member);
    ask(site, "c");
    await site.advance(1);
    isFree = true;
    await site.advance(3);
    assert.deepEqual([site.states("b"), site.deeds("c")], [["starting", "warming", "ready"], []]);
  });

  it("keeps its grants for the next operator, which continues from them", async () => {
    await using site = await grouped();
    ask(site, "a");
    await site.advance(12);
    ask(site, "a", { inFlight: 1 });
    ask(site, "b");
    await site.advance(1);
    await site.start();
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.state("b"), ...site.deeds("a")], ["ready", "offline", "start main"]);
    done(site, "a");
    await site.advance(12);
    await site.start();
    await site.advance(12);
    assert.deepEqual([site.state("a"), site.state("b"), mostAtOnce(site)], ["offline", "ready", 1]);
  });

  it("ends an eviction that its operator's predecessor began, and starts no other engine before", async () => {
    await using site = await grouped({ maxWaitSeconds: 20 });
    ask(site, "a");
    await site.advance(6);
    ask(site, "a", { inFlight: 1 });
    ask(site, "b");
    await site.advance(22);
    assert.equal(site.state("a"), "unloading");
    // Dies when the request in flight has ended: before the engine is stopped, or just after it.
    for (const effects of [0, 1]) {
      site.failAt(effects, true);
      done(site, "a");
      await site.advance(1);
      await site.start();
    }
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.state("b"), mostAtOnce(site)], ["offline", "ready", 1]);
    assert.deepEqual([...site.deeds("a"), ...site.deeds("b")], ["start main", "stop main", "start main"]);
  });

  it("loads no slot for a client that has disconnected, and grants the place to a slot with a request", async () => {
    await using site = await grouped({ maxWaitSeconds: 20 });
    ask(site, "a");
    await site.advance(6);
    ask(site, "a", { inFlight: 1 });
    ask(site, "b");
    await site.advance(22);
    assert.equal(site.state("a"), "unloading");
    // Who waited for b gives up; a has more requests.
    site.demand.set("b", { held: 0, inFlight: 0 });
    ask(site, "a", { held: 2 });
    await site.advance(5);
    assert.deepEqual([site.state("a"), ...site.deeds("b")], ["ready"]);
  });

  it("keeps an always loaded slot, and refuses requests for the others with the reason", async () => {
    await using site = await grouped();
    site.source.save("a", custom({ group: "gpu" }));
    await site.advance(5);
    assert.equal(site.condition("b", "Stalled"), "True/GroupFull", "before its first request");
    ask(site, "b");
    await site.advance(120);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "error"]);
    assert.deepEqual(
      [site.condition("b", "Stalled"), site.condition("b", "Ready")],
      ["True/GroupFull", "False/GroupFull"],
    );
    assert.equal(
      site.slot("b").plan.message,
      "group gpu is full: a has its place and never leaves, being always loaded",
    );
    site.source.save("a", custom({ group: "gpu", enabled: false }));
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.state("b")], ["offline", "ready"]);
  });

  it("does not exist without a SlotGroup, and its slots are unlimited once that is removed", async () => {
    await using site = await grouped();
    ask(site, "a");
    ask(site, "b");
    await site.advance(3);
    assert.equal(mostAtOnce(site), 1);
    site.source.deleteOther("SlotGroup", "gpu");
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "ready"]);
    // An edit that puts both into one again lets the longer unused one leave once it is idle.
    site.source.group("gpu", { minResidencySeconds: 0 });
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "ready"]);
    done(site, "b");
    await site.advance(3);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "offline"]);
  });
});

it("the status of groups is written once at a time: an older one never replaces a newer one", async () => {
  await using site = new Site();
  for (const group of ["gpu", "npu"]) {
    site.source.group(group, { budget: { slots: 1 } });
    site.source.save(`on-${group}`, custom({ group }));
  }
  const publish = site.groupStore.publish.bind(site.groupStore);
  let [now, most] = [0, 0];
  site.groupStore.publish = async (groups) => {
    now += 1;
    most = Math.max(most, now);
    await new Promise((resolve) => setImmediate(resolve));
    await publish(groups);
    now -= 1;
  };
  await site.start();
  await site.advance(5);
  assert.equal(most, 1);
  assert.deepEqual(
    site.groupStore.published().map(({ members }) => members.map(({ state }) => state)),
    [["loaded"], ["loaded"]],
  );
});
