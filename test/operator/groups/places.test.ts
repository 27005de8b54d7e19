import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom } from "../site.ts";
import { Course, member } from "./course.ts";

const two = { a: member(), b: member() };

function grouped(rules: { maxWaitSeconds?: number; minResidencySeconds?: number } = {}): Promise<Course> {
  return Course.of({ minResidencySeconds: 10, maxWaitSeconds: 60, ...rules }, two);
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

  it("lets a busy slot end its requests in flight once the other has waited its bound, however long they take", async () => {
    await using course = await grouped({ maxWaitSeconds: 20 });
    course.ask("a");
    await course.after(5);
    course.ask("a", { inFlight: 2 });
    course.ask("b");
    await course.after(18, "a ready");
    await course.after(4, "a unloading");
    assert.deepEqual(
      course.site.slot("a").plan.steps.map(({ do: step }) => step),
      ["drain", "stop"],
    );
    // Far longer than stopSeconds.
    await course.after(300, "a unloading");
    assert.deepEqual(course.site.runtime.running("a"), ["main"]);
    // Its gateway holds the requests that came meanwhile.
    course.ask("a", { held: 3 });
    await course.after(5, "a offline, b ready");
    course.rest("b");
    await course.after(12, "a ready, b offline");
    assert.equal(course.peak().engines, 1);
  });

  it("does not wait longer for an engine that hangs than it would without another slot", async () => {
    await using course = await grouped({ maxWaitSeconds: 20 });
    const { site } = course;
    course.ask("a");
    await course.after(5);
    course.ask("a", { inFlight: 1, lastByteAt: site.clock.now().toISOString() });
    course.ask("b");
    await course.after(25, "a unloading");
    site.runtime.failing.add(site.runtime.portOf("a") ?? 0);
    // It may still answer.
    await course.after(200, "a unloading");
    await course.after(100, "a offline");
    // b has the same port.
    site.runtime.failing.clear();
    await course.after(5, "b ready");
    assert.equal(course.peak().engines, 1);
  });

  it("goes to the next slot where an engine hangs before it listens", async () => {
    await using course = await grouped();
    const { site } = course;
    site.source.save("a", member({ probe: { startupSeconds: 40 } }));
    site.runtime.manner("a").startMs = 3_600_000;
    course.ask("a");
    await course.after(1);
    course.ask("b");
    await course.after(30);
    assert.equal(course.message("b"), "group gpu is full: a has its place; a still loads, for 40 s at most");
    await course.after(15, "b ready");
    assert.equal(site.slot("a").status.lastError?.reason, "StartupTimeout");
    // It comes behind the others, and does not take the room again before they have had their turn.
    assert.deepEqual(site.deeds("a"), ["start main", "stop main"]);
    assert.equal(course.peak().engines, 1);
  });

  it("loads no slot for a client that has disconnected", async () => {
    await using course = await grouped({ maxWaitSeconds: 20 });
    course.ask("a");
    await course.after(6);
    course.use("a");
    course.ask("b");
    await course.after(22, "a unloading");
    course.rest("b");
    course.ask("a", { held: 2 });
    await course.after(5, "a ready");
    assert.deepEqual(course.site.deeds("b"), []);
  });

  it("ends an eviction that an earlier operator began, and starts no other engine before", async () => {
    await using course = await grouped({ maxWaitSeconds: 20 });
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

  it("keeps the queue over a restart of the operator, with the time that slots have waited", async () => {
    await using course = await grouped({ minResidencySeconds: 0 });
    const { site } = course;
    site.source.save("z", member());
    course.ask("a");
    await course.after(2);
    course.use("a");
    course.ask("z");
    await course.after(40);
    course.ask("b");
    await course.after(1);
    await site.start();
    // z has waited for 41 s: the bound is counted from there, not from the restart.
    await course.after(5, "a ready, z offline");
    await course.after(17, "a unloading");
    course.rest("a");
    await course.after(2, "z ready, b offline");
    assert.equal(course.peak().engines, 1);
  });

  it("keeps an always loaded slot, and refuses requests for the others with the reason", async () => {
    await using course = await grouped();
    const { site } = course;
    site.source.save("a", custom({ group: "gpu" }));
    await course.after(5);
    assert.equal(site.condition("b", "Stalled"), "True/GroupFull", "before its first request");
    course.ask("b");
    await course.after(120, "a ready, b error");
    assert.deepEqual(
      [site.condition("b", "Stalled"), site.condition("b", "Ready"), course.message("b")],
      ["True/GroupFull", "False/GroupFull", "group gpu is full: a has its place and never leaves, being always loaded"],
    );
    site.source.save("a", custom({ group: "gpu", enabled: false }));
    await course.after(5, "a offline, b ready");
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
