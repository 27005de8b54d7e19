import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fc } from "../../support/fast-check.ts";
import { ask, budget, member, rest, scene, sizeOf } from "./growth-scene.ts";

describe("a slot of a group that swaps to a larger model", () => {
  it("has an idle slot leave first, and serves with its present model until that is gone", async () => {
    await using at = await scene({ a: 10, b: 8 });
    const { site } = at;
    ask(site, "a", { inFlight: 1 });
    site.source.save("a", member(16));
    // b is idle, and its gateway takes its time to let go of it.
    site.demand.isSlow = true;
    await site.advance(5);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "unloading"]);
    assert.deepEqual([sizeOf(site, "a"), site.deeds("a")], [10, ["start main"]]);
    assert.match(site.slot("b").status.transitions.at(-1)?.message ?? "", /^slot a waits for its place in group gpu/);
    const message = "group gpu is full: it needs 16.0 GiB, and of 20.0 GiB of memory b holds 8.0 GiB (leaves)";
    assert.deepEqual(site.slot("a").plan, { reason: "GroupFull", message, steps: [{ do: "wait", reason: message }] });
    assert.equal(site.groupStore.published()[0]?.members.find(({ slot }) => slot === "a")?.message, message);
    rest(site, "a");
    site.demand.isSlow = false;
    site.demand.tell("b");
    await site.advance(10);
    assert.deepEqual([site.state("a"), site.state("b"), sizeOf(site, "a")], ["ready", "offline", 16]);
    assert.deepEqual(site.deeds("a"), ["start main", "stop main", "start main"]);
    assert.equal(at.most(), 18);
  });

  it("waits for a busy slot, which leaves once a client of the swap has waited its bound", async () => {
    await using at = await scene({ a: 10, b: 8 });
    const { site } = at;
    ask(site, "b", { inFlight: 1 });
    ask(site, "a", { inFlight: 1 });
    site.source.save("a", member(16));
    await site.advance(20);
    assert.deepEqual([site.state("a"), site.state("b"), sizeOf(site, "a")], ["ready", "ready", 10]);
    await site.advance(20);
    assert.deepEqual([site.state("a"), site.state("b")], ["ready", "unloading"]);
    rest(site, "b");
    rest(site, "a");
    await site.advance(10);
    assert.deepEqual([site.state("a"), sizeOf(site, "a"), at.most()], ["ready", 16, 18]);
  });

  it("stays unchanged, with the sum, where the next model is larger than the budget", async () => {
    await using at = await scene({ a: 10, b: 8 });
    const { site } = at;
    site.source.save("a", member(24));
    await site.advance(60);
    assert.deepEqual([site.state("a"), site.state("b"), sizeOf(site, "a")], ["ready", "ready", 10]);
    assert.equal(site.condition("a", "Stalled"), "True/DoesNotFit");
    assert.equal(site.condition("a", "Available"), "True/Loaded");
    const message =
      "group gpu has too little for it: it needs 24.0 GiB, and the group has 20.0 GiB of memory; a smaller model or a larger budget helps";
    assert.equal(site.slot("a").plan.message, message);
    site.source.save("a", member(12));
    await site.advance(10);
    assert.deepEqual([site.state("a"), sizeOf(site, "a"), site.condition("a", "Stalled")], ["ready", 12, undefined]);
    assert.deepEqual([site.state("b"), at.most()], ["ready", 20]);
  });

  it("is not over the budget where its engine ends while it waits", async () => {
    await using at = await scene({ a: 10, b: 8 });
    const { site } = at;
    ask(site, "b", { inFlight: 1 });
    site.source.save("a", member(16));
    await site.advance(5);
    ask(site, "a");
    site.runtime.kill("a");
    await site.advance(10);
    assert.equal(site.state("b"), "ready");
    rest(site, "b");
    await site.advance(30);
    assert.deepEqual([site.state("a"), sizeOf(site, "a"), at.most()], ["ready", 16, 18]);
  });

  it("stays within the budget at any moment, under any edits and requests, and always settles", async () => {
    const slot = fc.constantFrom("a", "b", "c");
    const event = fc.oneof(
      fc.record({ kind: fc.constant("edit" as const), slot, size: fc.constantFrom(2, 6, 9, 14, 19, 25) }),
      fc.record({ kind: fc.constant("ask" as const), slot }),
      fc.record({ kind: fc.constant("busy" as const), slot }),
      fc.record({ kind: fc.constant("rest" as const), slot }),
      fc.record({ kind: fc.constant("pass" as const), seconds: fc.constantFrom(0.05, 1, 7, 40) }),
    );
    const run = async (events: readonly (typeof event extends fc.Arbitrary<infer Each> ? Each : never)[]) => {
      await using at = await scene({ a: 6, b: 6, c: 6 });
      const { site } = at;
      for (const each of events) {
        if (each.kind === "edit") site.source.save(each.slot, member(each.size));
        else if (each.kind === "ask") ask(site, each.slot);
        else if (each.kind === "busy") ask(site, each.slot, { inFlight: 1 });
        else if (each.kind === "rest") rest(site, each.slot);
        await site.advance(each.kind === "pass" ? each.seconds : 0.1);
      }
      for (const name of ["a", "b", "c"]) rest(site, name);
      await site.advance(60);
      assert.ok(at.most() <= budget, `${at.most()} GiB at once`);
      // Nothing is left over that a later request would wait for: each slot can be loaded in its turn.
      for (const name of ["a", "b", "c"]) {
        site.source.save(name, member(15));
        ask(site, name);
        await site.advance(60);
        assert.deepEqual([name, site.state(name), sizeOf(site, name)], [name, "ready", 15]);
        rest(site, name);
      }
      assert.ok(at.most() <= budget, `${at.most()} GiB at once`);
    };
    await fc.assert(fc.asyncProperty(fc.array(event, { minLength: 3, maxLength: 14 }), run), { numRuns: 15 });
  });
});
