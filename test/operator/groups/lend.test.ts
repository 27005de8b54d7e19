import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { custom } from "../site.ts";
import { Course, member } from "./course.ts";

function grouped(): Promise<Course> {
  const always = custom({ group: "gpu", pinned: true });
  return Course.of({ budget: { slots: 4 } }, { a: member(), b: member(), c: member(), always });
}

async function lend({ site: { clock, groupStore } }: Course, seconds: number, group = "gpu"): Promise<string> {
  const until = new Date(clock.now().getTime() + seconds * 1000).toISOString();
  await groupStore.lend({ schema: 1, group, until, requestedAt: clock.now().toISOString() });
  return until;
}

describe("a group that is lent", () => {
  it("loads nothing, and idle, busy, pinned and always loaded slots leave it when their requests have ended", async () => {
    await using course = await grouped();
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
    await using course = await grouped();
    const { site } = course;
    await course.load("b");
    await lend(course, 60);
    await course.after(5);
    course.ask("a");
    await course.after(54, "always offline, a offline");
    await course.after(3, "always ready, a ready, b offline");
    assert.equal(course.message("b"), "it left when its group was lent; the next request loads it");
    assert.deepEqual([site.slot("a").status.lentUntil, site.groupStore.loan("gpu")], [undefined, undefined]);
  });

  it("ends on request", async () => {
    await using course = await grouped();
    await lend(course, 7200);
    await course.after(5, "always offline");
    await course.site.groupStore.endLoan("gpu");
    await course.after(2, "always ready");
    assert.equal(course.site.slot("c").status.lentUntil, undefined);
  });

  it("is lent on where a gateway lends it at the moment at which the loan before ends", async () => {
    await using course = await grouped();
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

  it("lasts through a restart of the operator, also where it is over meanwhile", async () => {
    await using course = await grouped();
    const { site } = course;
    await lend(course, 600);
    await course.after(5);
    await site.start();
    await course.after(60, "always offline");
    await site.end();
    site.clock.advance(600_000);
    await site.start();
    await course.after(2, "always ready");
  });

  it("lets a slot that loads become ready, and leave then", async () => {
    await using course = await grouped();
    const { site } = course;
    site.runtime.manner("a").loadMs = 30_000;
    course.ask("a");
    await course.after(5);
    await lend(course, 600);
    await course.after(5, "a warming");
    course.rest("a");
    await course.after(30);
    assert.deepEqual(site.states("a").slice(-3), ["ready", "unloading", "offline"]);
    assert.deepEqual(site.deeds("a"), ["start main", "stop main"]);
  });

  it("may be a group that no SlotGroup declares", async () => {
    await using course = await Course.of(undefined, { a: custom({ group: "other" }) });
    await lend(course, 60, "other");
    await course.after(2, "a offline");
    await course.after(60, "a ready");
  });
});
