import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom, Site } from "../site.ts";

const member = custom({ load: "onDemand", idleSeconds: 600, group: "gpu" });

function ask(site: Site, slot: string, more: { held?: number; inFlight?: number } = { held: 1 }): void {
  site.demand.set(slot, { held: 0, inFlight: 0, ...more, lastRequestAt: site.clock.now().toISOString() });
}

async function lend(site: Site, seconds: number, group = "gpu"): Promise<string> {
  const until = new Date(site.clock.now().getTime() + seconds * 1000).toISOString();
  await site.groupStore.lend({ schema: 1, group, until, requestedAt: site.clock.now().toISOString() });
  return until;
}

async function grouped(): Promise<Site> {
  const site = new Site();
  site.source.group("gpu", { budget: { slots: 4 } });
  for (const slot of ["a", "b", "c"]) site.source.save(slot, member);
  site.source.save("always", custom({ group: "gpu", pinned: true }));
  await site.start();
  return site;
}

describe("a group that is lent", () => {
  it("loads nothing, and idle, busy, pinned and always loaded slots leave it when their requests have ended", async () => {
    await using site = await grouped();
    ask(site, "a");
    ask(site, "b");
    await site.advance(2);
    site.demand.set("a", { held: 0, inFlight: 0 });
    ask(site, "b", { inFlight: 1 });
    await site.advance(1);
    assert.deepEqual(
      ["a", "b", "c", "always"].map((slot) => site.state(slot)),
      ["ready", "ready", "offline", "ready"],
    );
    const until = await lend(site, 3600);
    await site.advance(1);
    assert.deepEqual(
      ["a", "b", "c", "always"].map((slot) => site.state(slot)),
      ["offline", "unloading", "offline", "offline"],
    );
    assert.deepEqual([site.slot("a").status.transitions.at(-2)?.reason, site.slot("b").plan.reason], ["Lent", "Lent"]);
    // Gateways refuse with the time at which it ends, on slots that nobody has asked for too.
    for (const slot of ["a", "b", "c", "always"]) assert.equal(site.slot(slot).status.lentUntil, until, slot);
    await site.advance(100);
    assert.deepEqual(site.runtime.running("b"), ["main"]);
    site.demand.set("b", { held: 0, inFlight: 0 });
    ask(site, "c");
    await site.advance(100);
    assert.deepEqual(
      [...site.runtime.running("b"), ...site.runtime.running("c"), ...site.runtime.running("always")],
      [],
    );
    assert.deepEqual(
      [site.condition("c", "Available"), site.condition("c", "Ready"), site.condition("always", "Ready")],
      ["False/Lent", "True/Lent", "Unknown/Lent"],
    );
    assert.equal(
      site.slot("c").plan.message,
      `group gpu is lent until ${until}; \`berth lend --end --group gpu\` ends that`,
    );
  });

  it("ends by itself: slots that are always loaded come back, and so do slots with requests", async () => {
    await using site = await grouped();
    await lend(site, 60);
    await site.advance(5);
    ask(site, "a");
    await site.advance(54);
    assert.deepEqual([site.state("always"), site.state("a")], ["offline", "offline"]);
    await site.advance(3);
    assert.deepEqual(
      [site.state("always"), site.state("a"), site.slot("a").status.lentUntil],
      ["ready", "ready", undefined],
    );
    assert.equal(site.groupStore.loan("gpu"), undefined);
  });

  it("is lent on where a gateway lends it at the moment at which the loan before ends", async () => {
    await using site = await grouped();
    await lend(site, 60);
    await site.advance(59);
    const { groupStore } = site;
    const end = groupStore.endLoan.bind(groupStore);
    let again: string | undefined;
    groupStore.endLoan = async (group, until) => {
      again ??= await lend(site, 3600);
      await end(group, until);
    };
    await site.advance(10);
    assert.ok(again !== undefined);
    assert.deepEqual([groupStore.loan("gpu")?.until, site.state("always")], [again, "offline"]);
    assert.equal(site.slot("c").status.lentUntil, again);
  });

  it("ends on request", async () => {
    await using site = await grouped();
    await lend(site, 7200);
    await site.advance(5);
    assert.equal(site.state("always"), "offline");
    await site.groupStore.endLoan("gpu");
    await site.advance(2);
    assert.deepEqual([site.state("always"), site.slot("c").status.lentUntil], ["ready", undefined]);
  });

  it("leaves an on-demand slot unloaded at its end, and says why", async () => {
    await using site = await grouped();
    ask(site, "a");
    await site.advance(2);
    site.demand.set("a", { held: 0, inFlight: 0 });
    await lend(site, 60);
    await site.advance(70);
    assert.deepEqual(
      [site.state("a"), site.slot("a").plan.message],
      ["offline", "it left when its group was lent; the next request loads it"],
    );
  });

  it("lasts through a restart of the operator, also where it is over meanwhile", async () => {
    await using site = await grouped();
    await lend(site, 600);
    await site.advance(5);
    await site.start();
    await site.advance(60);
    assert.deepEqual([site.state("always"), ...site.runtime.running("always")], ["offline"]);
    await site.end();
    site.clock.advance(600_000);
    await site.start();
    await site.advance(2);
    assert.equal(site.state("always"), "ready");
  });

  it("lets a slot that loads become ready, and leave then", async () => {
    await using site = await grouped();
    site.runtime.manner("a").loadMs = 30_000;
    ask(site, "a");
    await site.advance(5);
    await lend(site, 600);
    await site.advance(5);
    assert.equal(site.state("a"), "warming");
    site.demand.set("a", { held: 0, inFlight: 0 });
    await site.advance(30);
    assert.deepEqual(
      [site.states("a").slice(-3), site.deeds("a")],
      [
        ["ready", "unloading", "offline"],
        ["start main", "stop main"],
      ],
    );
  });

  it("may be a group that no SlotGroup declares", async () => {
    await using site = new Site();
    site.source.save("a", custom({ group: "other" }));
    await site.start();
    await lend(site, 60, "other");
    await site.advance(2);
    assert.equal(site.state("a"), "offline");
    await site.advance(60);
    assert.equal(site.state("a"), "ready");
  });
});

describe("the published status of groups", () => {
  it("has the budget, the members with the memory that they hold or wait for, and problems", async () => {
    await using site = new Site();
    site.source.group("gpu");
    for (const slot of ["a", "b"]) site.source.save(slot, member);
    await site.start();
    ask(site, "a");
    await site.advance(2);
    ask(site, "b");
    await site.advance(10);
    assert.deepEqual(site.groupStore.published(), [
      {
        name: "gpu",
        isDeclared: true,
        budget: [{ resource: "slots", total: 1, used: 1 }],
        members: [
          {
            slot: "b",
            state: "waiting",
            since: "2026-01-01T00:00:02.000Z",
            needs: [{ resource: "slots", amount: 1 }],
            message: "group gpu is full: a has its place",
          },
          {
            slot: "a",
            state: "loaded",
            since: "2026-01-01T00:00:00.140Z",
            needs: [{ resource: "slots", amount: 1 }],
            cost: { loadSeconds: 0.14 },
          },
        ],
        problems: [],
      },
    ]);
  });

  it("keeps the queue: after a restart of the operator the slot that waited first is first", async () => {
    await using site = new Site();
    site.source.group("gpu", { minResidencySeconds: 0, maxWaitSeconds: 60 });
    for (const slot of ["a", "b", "z"]) site.source.save(slot, member);
    await site.start();
    ask(site, "a");
    await site.advance(2);
    ask(site, "a", { inFlight: 1 });
    ask(site, "z");
    await site.advance(40);
    ask(site, "b");
    await site.advance(1);
    await site.start();
    // z has waited for 41 s: the bound is counted from there, not from the restart.
    await site.advance(22);
    assert.equal(site.state("a"), "unloading");
    site.demand.set("a", { held: 0, inFlight: 0 });
    await site.advance(2);
    assert.deepEqual([site.state("z"), site.state("b")], ["ready", "offline"]);
  });

  it("has a condition while pinned slots need more than the budget", async () => {
    await using site = new Site();
    site.source.group("gpu");
    for (const slot of ["a", "b"]) site.source.save(slot, custom({ group: "gpu" }));
    await site.start();
    await site.advance(2);
    const message =
      "the slots of group gpu that never leave for another (a, b: pinned, or always loaded) need 2 slots; its budget is 1";
    assert.deepEqual(site.groupStore.published()[0]?.problems, [{ reason: "BudgetTooSmall", message }]);
    const conditions = (): readonly string[] =>
      (site.publisher.registry?.resources ?? []).flatMap(({ kind, conditions: all }) =>
        kind === "SlotGroup" ? all.map(({ type, status, reason }) => `${type} ${status}/${reason}`) : [],
      );
    assert.deepEqual(conditions(), ["Ready False/BudgetTooSmall", "Stalled True/BudgetTooSmall"]);
    site.source.group("gpu", { budget: { slots: 2 } });
    await site.advance(2);
    assert.deepEqual(conditions(), ["Ready True/Accepted"]);
  });
});
