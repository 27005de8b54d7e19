import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom } from "../site.ts";
import { Course, member, sized } from "./course.ts";
import { gibibyte } from "./members.ts";

// The rules are rows of admit.test.ts: these are whole courses under an operator.

const two = { a: member(), b: member() };

function grouped(maxWaitSeconds = 60): Promise<Course> {
  return Course.of({ minResidencySeconds: 10, maxWaitSeconds }, two);
}

describe("a group with room for one slot", () => {
  it("has the second slot wait, and gives its room back to the first only for a new request", async () => {
    await using course = await grouped();
    const { site } = course;
    course.ask("a");
    await course.after(2);
    course.use("a");
    course.ask("b");
    await course.after(20, "a ready, b offline");
    const message = "group gpu is full: a has its place";
    assert.deepEqual(site.slot("b").plan, { reason: "GroupFull", message, steps: [{ do: "wait", reason: message }] });
    assert.deepEqual(
      ["Ready", "Available", "Reconciling"].map((type) => site.condition("b", type)),
      ["Unknown/GroupFull", "False/GroupFull", "True/GroupFull"],
    );
    course.rest("a");
    await course.after(5, "a offline, b ready");
    assert.equal(course.leave("a"), "slot b waits for its place in group gpu");
    assert.equal(course.message("a"), "it left for another slot of its group; the next request loads it");
    course.rest("b");
    await course.after(300, "a offline, b ready");
    course.ask("a");
    await course.after(5, "a ready, b offline");
    assert.equal(course.peak().engines, 1);
  });

  it("ends an eviction that an earlier operator began, and starts no other engine before", async () => {
    await using course = await grouped(20);
    const { site } = course;
    course.ask("a");
    await course.after(6);
    course.use("a");
    course.ask("b");
    await course.after(22, "a unloading");
    // Dies when the request in flight has ended: before the engine is stopped, or just after it.
    for (const effects of [0, 1]) {
      site.failAt(effects, true);
      course.rest("a");
      await course.after(1);
      await site.start();
    }
    await course.after(3, "a offline, b ready");
    assert.deepEqual([...site.deeds("a"), ...site.deeds("b")], ["start main", "stop main", "start main"]);
  });

  it("does not wait longer for an engine that hangs than it would without another slot", async () => {
    await using course = await grouped(20);
    const { site } = course;
    course.ask("a");
    await course.after(5);
    course.ask("a", { inFlight: 1, lastByteAt: site.clock.now().toISOString() });
    course.ask("b");
    await course.after(25, "a unloading");
    site.runtime.failing.add(site.runtime.portOf("a") ?? 0);
    // The engine of a may still answer its request.
    await course.after(200, "a unloading");
    await course.after(100, "a offline");
    // b has the same port.
    site.runtime.failing.clear();
    await course.after(5, "b ready");
    assert.equal(course.peak().engines, 1);
  });

  it("lasts as long as its SlotGroup, and a new one makes the idle slots leave", async () => {
    await using course = await grouped();
    const { site } = course;
    course.ask("a");
    course.ask("b");
    await course.after(3, "a ready, b offline");
    site.source.deleteOther("SlotGroup", "gpu");
    await course.after(3, "a ready, b ready");
    site.source.group("gpu", { minResidencySeconds: 0 });
    await course.after(3, "a ready, b ready");
    course.rest("b");
    await course.after(3, "a ready, b offline");
    assert.equal(course.leave("b"), "group gpu holds 2 slots, and its budget is 1");
  });
});

describe("a slot that has its room and lacks free memory", () => {
  const noMemory = { reason: "NoMemory", message: "4 GiB of 9 GiB are free" };

  it("waits for a driver that releases memory late, and keeps its room meanwhile", async () => {
    await using course = await Course.of({ minResidencySeconds: 0 }, two);
    const { site } = course;
    let isFree = false;
    course.refusal = (slot, isDue) => (slot === "b" && isDue && !isFree ? noMemory : undefined);
    await course.load("a");
    course.ask("b");
    await course.after(3, "a offline, b offline");
    assert.equal(site.condition("b", "Available"), "False/MemoryHeld");
    site.source.save("c", member());
    course.ask("c");
    await course.after(1);
    isFree = true;
    await course.after(3, "b ready, c offline");
    assert.deepEqual(site.states("b"), ["starting", "warming", "ready"]);
  });

  it("fails without any other leaving where the device is too small", async () => {
    await using course = await Course.of({ minResidencySeconds: 0 }, two);
    const { site } = course;
    course.refusal = (slot) => (slot === "b" ? { reason: "DoesNotFit", message: "it needs 120 GiB" } : undefined);
    await course.load("a");
    course.ask("b");
    await course.after(30, "a ready, b error");
    assert.deepEqual([site.deeds("a"), site.condition("b", "Stalled")], [["start main"], "True/DoesNotFit"]);
  });

  it("fails where the memory does not become free, and does not cost the others their room each time", async () => {
    await using course = await Course.of({ minResidencySeconds: 0 }, two);
    const { site } = course;
    course.refusal = (slot) => (slot === "b" ? noMemory : undefined);
    await course.load("a");
    course.ask("b");
    await course.after(12, "a offline, b error");
    assert.equal(site.slot("b").status.lastError?.reason, "NoMemory");
    for (let minute = 0; minute < 3; minute++) {
      course.ask("a");
      await course.after(5, "a ready");
      course.rest("a");
      await course.after(55);
    }
    const starts = site.deeds("a").filter((deed) => deed === "start main").length;
    assert.ok(starts <= 6, `${starts} starts`);
  });
});

/** A group with a budget of 20 GiB, whose slots of 10 and 8 GiB are loaded and idle. */
async function loaded(a = sized(10)): Promise<Course> {
  const rules = { budget: { memoryBytes: 20 * gibibyte }, minResidencySeconds: 0, maxWaitSeconds: 30 };
  const course = await Course.of(rules, { a, b: sized(8) });
  await course.load("a", "b");
  return course;
}

describe("a slot of a group that is edited to a larger model", () => {
  it("has an idle slot leave first, and serves with its present model until that is gone", async () => {
    await using course = await loaded();
    const { site } = course;
    course.use("a");
    site.demand.set("b", { held: 0, context: { tokens: 1000, tokensPerSecond: 1000 } });
    await course.after(1);
    site.source.save("a", sized(16));
    // b is idle, and its gateway takes its time to let go of it.
    site.demand.isSlow = true;
    await course.after(5, "a ready, b unloading");
    assert.deepEqual([course.sizeOf("a"), site.deeds("a")], [10, ["start main"]]);
    assert.match(
      course.leave("b") ?? "",
      /^slot a waits for its place in group gpu; to come back takes about \d+ s: .* 1 s to read 1000 tokens of its cache again$/,
    );
    const message = "group gpu is full: it needs 16.0 GiB, and of 20.0 GiB of memory b holds 8.0 GiB (leaves)";
    assert.deepEqual(site.slot("a").plan, { reason: "GroupFull", message, steps: [{ do: "wait", reason: message }] });
    assert.equal(site.groupStore.published()[0]?.members.find(({ slot }) => slot === "a")?.message, message);
    course.rest("a");
    site.demand.isSlow = false;
    site.demand.tell("b");
    await course.after(10, "a ready, b offline");
    assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main"]);
    assert.deepEqual([course.sizeOf("a"), course.peak().gib], [16, 18]);
  });

  it("keeps its model, with the sum, where the next one is larger than the budget", async () => {
    await using course = await loaded();
    const { site } = course;
    site.source.save("a", sized(24));
    await course.after(60, "a ready, b ready");
    assert.deepEqual(
      [course.sizeOf("a"), site.condition("a", "Stalled"), site.condition("a", "Available"), course.message("a")],
      [
        10,
        "True/DoesNotFit",
        "True/Loaded",
        "group gpu has too little for it: it needs 24.0 GiB, and the group has 20.0 GiB of memory; a smaller model or a larger budget helps",
      ],
    );
    site.source.save("a", sized(12));
    await course.after(10, "a ready, b ready");
    assert.deepEqual([course.sizeOf("a"), site.condition("a", "Stalled"), course.peak().gib], [12, undefined, 20]);
  });
});

describe("a slot of a group that is swapped to a larger model", () => {
  it("by a request that names it: a busy slot leaves once that request has waited its bound", async () => {
    const choosing = sized(10, { model: { default: "m", onRequest: ["big"], minResidencySeconds: 0 } });
    await using course = await loaded(choosing);
    const { site } = course;
    course.use("b");
    const waitingSince = site.clock.now().toISOString();
    const refs = [
      { ref: "m", held: 0, inFlight: 0 },
      { ref: "big", held: 1, inFlight: 0, waitingSince },
    ];
    course.ask("a", { held: 1, refs });
    await course.after(25, "b ready");
    assert.deepEqual(site.deeds("a"), ["start main"], "its present engine is loaded as long as the other slot is");
    await course.after(10, "b unloading");
    course.rest("b");
    await course.after(10, "a ready, b offline");
    assert.deepEqual([site.slot("a").status.model.ref, course.sizeOf("a"), course.peak().gib], ["big", 16, 18]);
  });

  it("by a person: serves meanwhile, says what it waits for, and keeps its turn over a restart of the operator", async () => {
    await using course = await loaded();
    const { site } = course;
    const waitsSince = () => site.groupStore.published()[0]?.members.find(({ slot }) => slot === "a")?.nextWaitsSince;
    course.use("a");
    course.use("b");
    await site.request("a", "swap-model", { model: "big", specModel: "m" });
    await course.after(20, "a ready, b ready");
    const message = "group gpu is full: it needs 16.0 GiB, and of 20.0 GiB of memory b holds 8.0 GiB";
    assert.deepEqual([course.sizeOf("a"), course.message("a")], [10, message]);
    const since = waitsSince();
    assert.ok(since !== undefined);
    await site.start();
    await course.after(5, "b ready");
    assert.equal(waitsSince(), since);
    // 30 s since the swap, not since the restart.
    await course.after(10, "b unloading");
    course.rest("a", "b");
    await course.after(3, "a ready");
    assert.deepEqual([site.slot("a").status.model.ref, course.sizeOf("a"), course.peak().gib], ["big", 16, 18]);
  });
});

function withAlways(): Promise<Course> {
  const always = custom({ group: "gpu", pinned: true });
  return Course.of({ budget: { slots: 4 } }, { a: member(), b: member(), c: member(), always });
}

async function lend({ site: { clock, groupStore } }: Course, seconds: number): Promise<string> {
  const until = new Date(clock.now().getTime() + seconds * 1000).toISOString();
  await groupStore.lend({ schema: 1, group: "gpu", until, requestedAt: clock.now().toISOString() });
  return until;
}

describe("a group that is lent", () => {
  it("loads nothing, and idle, busy, pinned and always loaded slots leave it when their requests have ended", async () => {
    await using course = await withAlways();
    const { site } = course;
    await course.load("a", "b");
    course.use("b");
    await course.after(1, "a ready, b ready, c offline, always ready");
    const until = await lend(course, 3600);
    await course.after(1, "a offline, b unloading, c offline, always offline");
    assert.deepEqual([site.slot("a").status.transitions.at(-2)?.reason, site.slot("b").plan.reason], ["Lent", "Lent"]);
    // Gateways refuse with the time at which it ends, on slots that nobody has asked for too.
    for (const slot of ["a", "b", "c", "always"]) assert.equal(site.slot(slot).status.lentUntil, until, slot);
    await course.after(100, "b unloading");
    course.rest("b");
    course.ask("c");
    await course.after(100, "b offline, c offline, always offline");
    assert.deepEqual(
      [site.condition("c", "Available"), site.condition("c", "Ready"), site.condition("always", "Ready")],
      ["False/Lent", "True/Lent", "Unknown/Lent"],
    );
    assert.equal(course.message("c"), `group gpu is lent until ${until}; \`berth lend --end --group gpu\` ends that`);
  });

  it("ends by itself: slots that are always loaded come back, and so do slots with requests", async () => {
    await using course = await withAlways();
    const { site } = course;
    await course.load("b");
    await lend(course, 60);
    await course.after(5);
    await site.start();
    course.ask("a");
    await course.after(54, "always offline, a offline");
    await course.after(3, "always ready, a ready, b offline");
    assert.equal(course.message("b"), "it left when its group was lent; the next request loads it");
    assert.deepEqual([site.slot("a").status.lentUntil, site.groupStore.loan("gpu")], [undefined, undefined]);
  });

  it("is lent on where a gateway lends it at the moment at which the loan before ends", async () => {
    await using course = await withAlways();
    await lend(course, 60);
    await course.after(59);
    const { groupStore } = course.site;
    const end = groupStore.endLoan.bind(groupStore);
    let again: string | undefined;
    groupStore.endLoan = async (group, until) => {
      again ??= await lend(course, 3600);
      await end(group, until);
    };
    await course.after(10, "always offline");
    assert.ok(again !== undefined);
    assert.deepEqual([groupStore.loan("gpu")?.until, course.site.slot("c").status.lentUntil], [again, again]);
  });
});
