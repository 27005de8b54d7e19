import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { admit } from "../../../src/operator/groups/admit.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import type { Entries } from "../../../src/operator/groups/entries.ts";
import type { Member } from "../../../src/operator/groups/member.ts";
import { custom, Site } from "../site.ts";
import { requesting, busy, loading, member, ready, slots } from "./members.ts";

const rules: GroupRules = { ...slots(2), maxWaitMs: 60_000, minResidencyMs: 0 };

/** The grants after several moments. */
function after(
  moments: readonly (readonly [atMs: number, ...members: Member[]])[],
  given = rules,
): Map<string, string> {
  let entries: Entries = new Map();
  let told = new Map<string, string>();
  for (const [atMs, ...members] of moments) {
    const admission = admit(members, given, entries, atMs);
    ({ entries } = admission);
    told = new Map([...admission.grants].map(([name, { state }]) => [name, state]));
  }
  return told;
}

// Faults that the router of llama-server had, by its own reports.
describe("faults of llama.cpp's router that a group does not have", () => {
  it("one of two waiting slots starves: here each gets the place in its turn, also beside a client that never pauses", () => {
    const one: GroupRules = { ...rules, ...slots(1) };
    const wait = [member("b", requesting), member("c", requesting)];
    const first = after(
      [
        [0, member("a", busy), ...wait],
        [60_000, member("a", busy), ...wait],
      ],
      one,
    );
    assert.deepEqual(
      [...first],
      [
        ["a", "leaving"],
        ["b", "waiting"],
        ["c", "waiting"],
      ],
    );
    // a asks again at once, and comes behind both.
    const second = after(
      [
        [0, member("a", busy), ...wait],
        [60_000, member("a", busy), ...wait],
        [61_000, member("a", requesting), ...wait],
        [70_000, member("a", requesting), member("b", busy), member("c", requesting)],
        [140_000, member("a", requesting), member("b", busy), member("c", requesting)],
        [141_000, member("a", requesting), member("b", requesting), member("c", requesting)],
      ],
      one,
    );
    assert.deepEqual(second.get("c"), "granted");
  });

  it("the most recently requested model is evicted: here neither a slot with a new grant nor a slot with a request leaves", () => {
    const told = after([
      [0, member("a", { ...ready, idleMs: 900_000 }), member("b", { ...busy, idleMs: 0 }), member("c")],
      [1000, member("a", { ...ready, idleMs: 901_000 }), member("b", { ...busy, idleMs: 0 }), member("c", requesting)],
      [2000, member("b", { ...busy, idleMs: 0 }), member("c", requesting), member("a")],
      // c has its room and has not begun to load; d wants room, too.
      [2001, member("b", { ...busy, idleMs: 0 }), member("c", requesting), member("d", requesting)],
    ]);
    assert.deepEqual([told.get("b"), told.get("c"), told.get("d")], ["granted", "granted", "waiting"]);
  });

  it("a loading model is killed by the next request: here a loading slot never leaves, however long another waits", () => {
    const loads = [member("a", loading), member("b", loading)];
    const told = after([
      [0, ...loads, member("c", requesting)],
      [3_600_000, ...loads, member("c", requesting)],
    ]);
    assert.deepEqual([...told.values()], ["granted", "granted", "waiting"]);
  });

  it("a client that has left while it waited costs a running model its place: here the model stays", () => {
    const one: GroupRules = { ...rules, ...slots(1) };
    const left = { ...requesting, isUnattended: true };
    const moments = [
      [0, member("a", busy), member("b", requesting)],
      [1000, member("a", busy), member("b", left)],
      [5000, member("a", { ...ready, idleMs: 10 }), member("b", left)],
    ] as const;
    assert.deepEqual([...after(moments, one).values()], ["granted", "waiting"]);
    // Another client asks for it: now the idle one leaves.
    const again = after([...moments, [6000, member("a", { ...ready, idleMs: 1010 }), member("b", requesting)]], one);
    assert.deepEqual([...again.values()], ["leaving", "waiting"]);
    // Room that is free is its own all the same.
    assert.equal(after([...moments, [6000, member("a"), member("b", left)]], one).get("b"), "granted");
  });

  it("a failed load leaves all clients waiting: here its place goes to the next slot, and then to the remaining ones", () => {
    const one: GroupRules = { ...rules, ...slots(1) };
    const told = after(
      [
        [0, member("a", requesting), member("b", requesting), member("c", requesting)],
        [1000, member("a", loading), member("b", requesting), member("c", requesting)],
        // a backs off and asks for nothing; b fails as well.
        [2000, member("a"), member("b", requesting), member("c", requesting)],
        [3000, member("a"), member("b", loading), member("c", requesting)],
        [4000, member("a"), member("b"), member("c", requesting)],
      ],
      one,
    );
    assert.deepEqual([...told], [["c", "granted"]]);
  });

  it("an idle timer runs while loading: here a slot that loads for longer than its idle time becomes ready, and is used", async () => {
    await using site = new Site();
    site.source.group("gpu", { minResidencySeconds: 0 });
    for (const name of ["a", "b"])
      site.source.save(
        name,
        custom({ load: "onDemand", idleSeconds: 5, group: "gpu", probe: { startupSeconds: 600 } }),
      );
    site.runtime.manner("a").loadMs = 60_000;
    await site.start();
    const at = site.clock.now().toISOString();
    // Its client has left; nothing else needs the place.
    site.demand.set("a", { held: 1, inFlight: 0, lastRequestAt: at });
    await site.advance(1);
    site.demand.set("a", { held: 0, inFlight: 0, lastRequestAt: at });
    await site.advance(62);
    assert.deepEqual(site.states("a"), ["starting", "warming", "ready"]);
    // Only now its idle time begins.
    await site.advance(10);
    assert.equal(site.state("a"), "offline");
  });
});
