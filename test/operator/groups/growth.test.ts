import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { fc, runs } from "../../support/fast-check.ts";
import { Course, sized } from "./course.ts";
import { gibibyte } from "./members.ts";

/** GiB. */
const budget = 20;

/** A group with a budget, whose slots are loaded and idle. */
async function loaded(specs: Readonly<Record<string, SlotSpecInput>>): Promise<Course> {
  const rules = { budget: { memoryBytes: budget * gibibyte }, minResidencySeconds: 0, maxWaitSeconds: 30 };
  const course = await Course.of(rules, specs);
  await course.load(...Object.keys(specs));
  return course;
}

const two = { a: sized(10), b: sized(8) };

describe("a slot of a group that is edited to a larger model", () => {
  it("has an idle slot leave first, and serves with its present model until that is gone", async () => {
    await using course = await loaded(two);
    const { site } = course;
    course.use("a");
    site.source.save("a", sized(16));
    // b is idle, and its gateway takes its time to let go of it.
    site.demand.isSlow = true;
    await course.after(5, "a ready, b unloading");
    assert.deepEqual([course.sizeOf("a"), site.deeds("a")], [10, ["start main"]]);
    assert.match(course.leave("b") ?? "", /^slot a waits for its place in group gpu/);
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
    await using course = await loaded(two);
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

  it("is not over the budget where its engine ends while it waits", async () => {
    await using course = await loaded(two);
    course.use("b");
    course.site.source.save("a", sized(16));
    await course.after(5);
    course.ask("a");
    course.site.runtime.kill("a");
    await course.after(10, "b ready");
    course.rest("b");
    await course.after(30, "a ready");
    assert.deepEqual([course.sizeOf("a"), course.peak().gib], [16, 18]);
  });

  it("stays within the budget at any moment, under any edits and requests, and always settles", async () => {
    const event = fc.record({
      kind: fc.constantFrom("edit", "ask", "busy", "rest", "pass"),
      slot: fc.constantFrom("a", "b", "c"),
      size: fc.constantFrom(2, 6, 9, 14, 19, 25),
      seconds: fc.constantFrom(0.05, 1, 7, 40),
    });
    const all = ["a", "b", "c"];
    const holds = fc.asyncProperty(fc.array(event, { minLength: 3, maxLength: 14 }), async (events) => {
      await using course = await loaded({ a: sized(6), b: sized(6), c: sized(6) });
      for (const { kind, slot, size, seconds } of events) {
        if (kind === "edit") course.site.source.save(slot, sized(size));
        if (kind === "ask") course.ask(slot);
        if (kind === "busy") course.use(slot);
        if (kind === "rest") course.rest(slot);
        await course.after(kind === "pass" ? seconds : 0.1);
      }
      course.rest(...all);
      await course.after(60);
      // Nothing is left over that a later request would wait for: each slot can be loaded in its turn.
      for (const slot of all) {
        course.site.source.save(slot, sized(15));
        course.ask(slot);
        await course.after(60, `${slot} ready`);
        assert.equal(course.sizeOf(slot), 15, slot);
        course.rest(slot);
      }
      assert.ok(course.peak().gib <= budget, `${course.peak().gib} GiB at once`);
    });
    await fc.assert(holds, { numRuns: runs(8) });
  });
});

describe("a slot of a group that is swapped to a larger model", () => {
  const choosing = sized(10, { model: { default: "m", onRequest: ["big", "tiny"], minResidencySeconds: 0 } });

  /** A client waits for that model of slot a. */
  function askFor(course: Course, ref: string): void {
    const waitingSince = course.site.clock.now().toISOString();
    const present = { ref: "m", held: 0, inFlight: 0 };
    course.ask("a", { held: 1, refs: [present, { ref, held: 1, inFlight: 0, waitingSince }] });
  }

  it("by a request that names it: a busy slot leaves once that request has waited its bound", async () => {
    await using course = await loaded({ a: choosing, b: two.b });
    const { site } = course;
    course.use("b");
    askFor(course, "big");
    await course.after(25, "b ready");
    assert.deepEqual(site.deeds("a"), ["start main"], "its present engine is loaded as long as the other slot is");
    await course.after(10, "b unloading");
    course.rest("b");
    await course.after(10, "a ready, b offline");
    assert.deepEqual([site.slot("a").status.model.ref, course.sizeOf("a"), course.peak().gib], ["big", 16, 18]);
  });

  it("by a request that names it: a smaller one needs nobody to leave", async () => {
    await using course = await loaded({ a: choosing, b: two.b });
    askFor(course, "tiny");
    await course.after(5, "a ready, b ready");
    assert.deepEqual([course.site.slot("a").status.model.ref, course.sizeOf("a")], ["tiny", 8]);
  });

  it("by a person: serves meanwhile, says what it waits for, and keeps its turn over a restart of the operator", async () => {
    await using course = await loaded(two);
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
