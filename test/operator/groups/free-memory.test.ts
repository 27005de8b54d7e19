import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Course, member, sized } from "./course.ts";
import { gibibyte } from "./members.ts";

const two = { a: member(), b: member() };

describe("a slot that has its room and lacks free memory", () => {
  const noMemory = { reason: "NoMemory", message: "4 GiB of 9 GiB are free" };

  it("is not refused for the memory of the slot that leaves for it", async () => {
    await using course = await Course.of({ minResidencySeconds: 0 }, two);
    const { runtime } = course.site;
    course.refusal = (slot) =>
      ["a", "b"].some((other) => other !== slot && runtime.running(other).length > 0) ? noMemory : undefined;
    await course.load("a");
    course.ask("b");
    await course.after(5, "a offline, b ready");
    assert.deepEqual(course.site.states("b"), ["starting", "warming", "ready"]);
  });

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

  it("fails without any other leaving where the device is too small", async () => {
    await using course = await Course.of({ minResidencySeconds: 0 }, two);
    const { site } = course;
    course.refusal = (slot) => (slot === "b" ? { reason: "DoesNotFit", message: "it needs 120 GiB" } : undefined);
    await course.load("a");
    course.ask("b");
    await course.after(30, "a ready, b error");
    assert.deepEqual([site.deeds("a"), site.condition("b", "Stalled")], [["start main"], "True/DoesNotFit"]);
  });
});

describe("a group with a budget of bytes", () => {
  it("makes the slot leave that makes room at the least cost, and tells that cost", async () => {
    const specs = { a: sized(10), b: sized(8), c: sized(10), d: sized(1) };
    await using course = await Course.of({ budget: { memoryBytes: 20 * gibibyte }, minResidencySeconds: 0 }, specs);
    const { site } = course;
    await course.load("a", "b", "d");
    await course.after(1, "a ready, b ready, c offline, d ready");
    const context = { tokens: 6000, tokensPerSecond: 1000 };
    site.demand.set("a", { held: 0, context: { ...context, tokens: 1000 } });
    site.demand.set("b", { held: 0, context });
    await course.after(1);
    assert.deepEqual(
      site.groupStore.published()[0]?.members.map(({ slot, cost }) => [slot, cost?.contextSeconds]),
      [
        ["a", 1],
        ["b", 6],
        ["c", undefined],
        ["d", undefined],
      ],
    );
    course.ask("c");
    // Without a, 9 GiB are used; without b, 11: too much for c.
    await course.after(5, "a offline, b ready, c ready, d ready");
    assert.match(
      course.leave("a") ?? "",
      /^slot c waits for its place in group gpu; to come back takes about \d+ s: \d+ s to load, 1 s to read 1000 tokens of its cache again$/,
    );
  });
});
