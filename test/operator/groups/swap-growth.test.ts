import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Site } from "../site.ts";
import { ask, member, rest, scene, sizeOf } from "./growth-scene.ts";

const choosing = member(10, { model: { default: "m", onRequest: ["big", "tiny"], minResidencySeconds: 0 } });

/** One client waits for that model of slot a. */
function askFor(site: Site, ref: string, present = 0): void {
  const waitingSince = site.clock.now().toISOString();
  const refs = [
    { ref: "m", held: 0, inFlight: present },
    { ref, held: 1, inFlight: 0, waitingSince },
  ];
  ask(site, "a", { held: 1, inFlight: present, refs });
}

const held = (site: Site, slot = "a"): string => {
  const { model, state } = site.slot(slot).status;
  return `${model.ref} ${state}, ${sizeOf(site, slot)} GiB`;
};

/** Slot a waits for 20 s to be swapped to a larger model; it and slot b are busy. */
async function waiting() {
  const at = await scene({ a: 10, b: 8 });
  const { site } = at;
  ask(site, "b", { inFlight: 1 });
  ask(site, "a", { inFlight: 1 });
  await site.request("a", "swap-model", { model: "big", specModel: "m" });
  await site.advance(20);
  return at;
}

describe("a slot of a group that is swapped to a larger model", () => {
  it("by a request that names it: makes an idle slot leave first", async () => {
    await using at = await scene({ a: choosing, b: 8 });
    const { site } = at;
    site.demand.isSlow = true;
    askFor(site, "big");
    await site.advance(5);
    // Its present engine is loaded as long as the other slot is.
    assert.deepEqual([site.deeds("a"), site.state("b")], [["start main"], "unloading"]);
    assert.match(site.slot("b").status.transitions.at(-1)?.message ?? "", /^slot a waits for its place in group gpu/);
    site.demand.isSlow = false;
    site.demand.tell("b");
    await site.advance(10);
    assert.deepEqual([held(site), site.state("b"), at.most()], ["big ready, 16 GiB", "offline", 18]);
  });

  it("by a request that names it: a smaller one needs nobody to leave", async () => {
    await using at = await scene({ a: choosing, b: 8 });
    const { site } = at;
    askFor(site, "tiny");
    await site.advance(5);
    assert.deepEqual([held(site), site.state("b"), at.most()], ["tiny ready, 8 GiB", "ready", 18]);
  });

  it("by a request that names it: a busy slot leaves once that request has waited its bound", async () => {
    await using at = await scene({ a: choosing, b: 8 });
    const { site } = at;
    ask(site, "b", { inFlight: 1 });
    askFor(site, "big");
    await site.advance(25);
    assert.deepEqual([site.state("b"), site.deeds("a")], ["ready", ["start main"]]);
    await site.advance(10);
    assert.equal(site.state("b"), "unloading");
    rest(site, "b");
    await site.advance(10);
    assert.deepEqual([held(site), at.most()], ["big ready, 16 GiB", 18]);
  });

  it("by a person: serves with its present model until there is room, and says what it waits for", async () => {
    await using at = await waiting();
    const { site } = at;
    assert.deepEqual([site.state("a"), sizeOf(site, "a"), site.state("b")], ["ready", 10, "ready"]);
    assert.equal(
      site.slot("a").plan.message,
      "group gpu is full: it needs 16.0 GiB, and of 20.0 GiB of memory b holds 8.0 GiB",
    );
    rest(site, "a");
    rest(site, "b");
    await site.advance(20);
    assert.deepEqual([held(site), site.state("b"), at.most()], ["big ready, 16 GiB", "offline", 18]);
  });

  it("by a person: to one that is larger than the budget, keeps its present model and says so", async () => {
    await using at = await scene({ a: 15, b: 2 });
    const { site } = at;
    await site.request("a", "swap-model", { model: "big", specModel: "m" });
    await site.advance(60);
    assert.deepEqual([site.state("a"), sizeOf(site, "a"), site.state("b")], ["ready", 15, "ready"]);
    assert.equal(site.condition("a", "Stalled"), "True/DoesNotFit");
    assert.equal(
      site.slot("a").plan.message,
      "group gpu has too little for it: it needs 21.0 GiB, and the group has 20.0 GiB of memory; a smaller model or a larger budget helps",
    );
    await site.request("a", "swap-model", { specModel: "m" });
    await site.advance(10);
    assert.deepEqual([held(site), site.condition("a", "Stalled")], ["m ready, 15 GiB", undefined]);
  });

  it("keeps its turn over a restart of the operator", async () => {
    await using at = await waiting();
    const { site } = at;
    const since = site.groupStore.published()[0]?.members.find(({ slot }) => slot === "a")?.nextWaitsSince;
    assert.ok(since !== undefined);
    await site.start();
    await site.advance(5);
    assert.equal(site.groupStore.published()[0]?.members.find(({ slot }) => slot === "a")?.nextWaitsSince, since);
    assert.equal(site.state("b"), "ready");
    // 30 s since the swap, not since the restart.
    await site.advance(10);
    assert.equal(site.state("b"), "unloading");
    rest(site, "b");
    rest(site, "a");
    await site.advance(3);
    assert.deepEqual([held(site), at.most()], ["big ready, 16 GiB", 18]);
  });
});
