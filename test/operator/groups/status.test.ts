import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { admit } from "../../../src/operator/groups/admit.ts";
import { groupStatus } from "../../../src/operator/groups/status.ts";
import { custom } from "../site.ts";
import { Course, member } from "./course.ts";
import { gib, gibibyte, members } from "./members.ts";

const two = { a: member(), b: member() };

describe("the status of a group", () => {
  it("has the budget, the members with the memory that they hold or wait for, and their costs", async () => {
    await using course = await Course.of({}, two);
    course.ask("a");
    await course.after(2);
    course.ask("b");
    await course.after(10);
    const needs = [{ resource: "slots", amount: 1 }];
    const message = "group gpu is full: a has its place";
    assert.deepEqual(course.site.groupStore.published(), [
      {
        name: "gpu",
        isDeclared: true,
        budget: [{ resource: "slots", total: 1, used: 1 }],
        members: [
          { slot: "b", state: "waiting", since: "2026-01-01T00:00:02.000Z", needs, message },
          { slot: "a", state: "loaded", since: "2026-01-01T00:00:00.140Z", needs, cost: { loadSeconds: 0.14 } },
        ],
        problems: [],
      },
    ]);
  });

  it("counts the memory of a slot's next engine from the moment at which it is granted", () => {
    const group = members("a needs=4 next=10 ready, b needs=6 ready");
    const capacity = gib(20);
    const rules = { group: "gpu", capacity, maxWaitMs: 0, minResidencyMs: 0 };
    const { entries, grants, nextGrants } = admit(group, rules, new Map(), 0);
    const status = groupStatus(
      {
        name: "gpu",
        isDeclared: true,
        capacity,
        members: group,
        entries,
        grants: (slot) => grants.get(slot) ?? { state: "granted" },
        nextGrants: (slot) => nextGrants.get(slot)?.grant,
        unread: [],
        budgetProblem: undefined,
      },
      undefined,
      new Date(0),
    );
    assert.deepEqual(status.budget, [{ resource: "memory", total: 20 * gibibyte, used: 16 * gibibyte }]);
  });

  it("has a condition while the slots that never leave need more than the budget", async () => {
    await using course = await Course.of({}, { a: custom({ group: "gpu" }), b: member({ pinned: true }) });
    const { site } = course;
    await course.after(2);
    const message =
      "the slots of group gpu that never leave for another (a, b: pinned, or always loaded) need 2 slots; its budget is 1";
    assert.deepEqual(site.groupStore.published()[0]?.problems, [{ reason: "BudgetTooSmall", message }]);
    const conditions = (): readonly string[] =>
      (site.publisher.registry?.resources ?? []).flatMap(({ kind, conditions: all }) =>
        kind === "SlotGroup" ? all.map(({ type, status, reason }) => `${type} ${status}/${reason}`) : [],
      );
    assert.deepEqual(conditions(), ["Ready False/BudgetTooSmall", "Stalled True/BudgetTooSmall"]);
    site.source.group("gpu", { budget: { slots: 2 } });
    await course.after(2);
    assert.deepEqual(conditions(), ["Ready True/Accepted"]);
  });

  it("waits for a slot that cannot be read, names it, and goes on without it after ten seconds", async () => {
    await using course = await Course.of(undefined, { a: member() });
    const { site } = course;
    const { machine } = site;
    site.source.group("gpu");
    site.source.save("odd", member());
    site.machine = {
      ...machine,
      devicesFor(slot, isRunning) {
        if (slot === "odd") throw new Error("told to fail: this slot cannot be read");
        return machine.devicesFor(slot, isRunning);
      },
    };
    course.ask("a");
    await site.start();
    await course.after(2);
    assert.deepEqual(
      [site.condition("a", "Available"), course.message("a")],
      ["False/GroupPending", "group gpu waits until slot odd has been read once"],
    );
    await course.after(10, "a ready");
    assert.deepEqual(site.groupStore.published()[0]?.problems, [
      {
        reason: "SlotUnread",
        message: "slot odd cannot be read; it counts as it was published last (`berth slot show odd`)",
      },
    ]);
  });

  it("is written once at a time: an older one never replaces a newer one", async () => {
    await using course = await Course.of({}, { a: custom({ group: "gpu" }), b: custom({ group: "npu" }) });
    const { groupStore, source } = course.site;
    source.group("npu");
    const publish = groupStore.publish.bind(groupStore);
    let [now, most] = [0, 0];
    groupStore.publish = async (groups) => {
      now += 1;
      most = Math.max(most, now);
      await new Promise((resolve) => setImmediate(resolve));
      await publish(groups);
      now -= 1;
    };
    await course.after(5);
    assert.equal(most, 1);
    assert.deepEqual(
      groupStore.published().map(({ members }) => members.map(({ state }) => state)),
      [["loaded"], ["loaded"]],
    );
  });

  it("is logged once where no file declares the group, with the files that name it and what to do", async () => {
    await using course = await Course.of(undefined, two);
    for (const slot of ["a", "b", "a"]) await course.load(slot);
    const lines = course.site.log.filter((line) => line.includes("no file declares"));
    assert.equal(lines.length, 1, lines.join(""));
    assert.match(
      lines[0] ?? "",
      /no file declares group gpu: its slots share the memory of their devices: a \(\S*a\.toml\), b \(\S*b\.toml\); give it a budget in groups\/gpu\.toml, a SlotGroup \(docs\/groups\.md\), or take the group out of these slots/,
    );
  });
});
