import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { admit, type Admission } from "../../../src/operator/groups/admit.ts";
import { exceeded, fits } from "../../../src/operator/groups/amounts.ts";
import type { Entries } from "../../../src/operator/groups/entries.ts";
import { grown, type Member } from "../../../src/operator/groups/member.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import { fc } from "../../support/fast-check.ts";
import { gib, member, slots } from "./members.ts";
import { simulate, stepMs, type SimulatedSlot } from "./simulation.ts";

describe("a group under random load, by slots and by bytes", () => {
  const slot = fc.record({
    loadMs: fc.integer({ min: 0, max: 20_000 }),
    requestMs: fc.integer({ min: 0, max: 20_000 }),
    gib: fc.integer({ min: 1, max: 16 }),
    failedLoads: fc.constantFrom(0, 0, 0, 1, 2),
  });
  const request = fc.record({
    at: fc.integer({ min: 0, max: 600_000 }),
    slot: fc.nat(4),
    giveUpAfterMs: fc.constantFrom(Infinity, Infinity, 10_000),
  });
  const load = fc.record({
    drawn: fc.array(slot, { minLength: 2, maxLength: 5, size: "max" }),
    budget: fc.oneof(
      fc.record({ kind: fc.constant("slots" as const), most: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ kind: fc.constant("bytes" as const), most: fc.integer({ min: 16, max: 32 }) }),
    ),
    pinned: fc.option(fc.nat(4), { nil: undefined }),
    minResidencyMs: fc.constantFrom(0, 1000, 30_000),
    maxWaitMs: fc.constantFrom(0, 5000, 60_000),
    requests: fc.array(request, { maxLength: 60, size: "max" }),
  });

  it("is never over its budget, evicts no slot that loads, is pinned or is busy within its bound, and serves every slot", () => {
    let [answered, abandoned] = [0, 0];
    const holds = fc.property(load, ({ drawn, budget, pinned, minResidencyMs, maxWaitMs, requests }) => {
      const group = drawn.map(({ gib: size, ...more }, index): SimulatedSlot => ({
        name: `s${index}`,
        needs: budget.kind === "slots" ? new Map([["slots", 1]]) : gib(size),
        ...more,
      }));
      const capacity = budget.kind === "slots" ? slots(budget.most).capacity : gib(budget.most);
      const rules: GroupRules = { group: "gpu", capacity, maxWaitMs, minResidencyMs };
      const keeper = pinned === undefined ? undefined : group[pinned];
      // A pinned slot that leaves no room to others would make them wait for an edit.
      const isPinned = keeper !== undefined && group.every((one) => one === keeper || fits([keeper, one], capacity));
      const simulated = group.map((one) => ({ ...one, isPinned: isPinned && one === keeper }));
      const asked = requests.filter((each) => each.slot < group.length);
      const run = simulate(simulated, rules, asked);
      assert.deepEqual(run.problems, []);
      assert.deepEqual([run.left, run.waits.length + run.gaveUp], [0, asked.length]);
      // A turn: until the holder has had its turn, its requests in flight end, and the next is loaded; a load may fail.
      const failed = group.reduce((sum, { failedLoads = 0, loadMs }) => sum + failedLoads * (loadMs + 10_000), 0);
      const turnMs = Math.max(minResidencyMs, 5000) + 20_000 + 20_000 + 4 * stepMs;
      const bound = maxWaitMs + (group.length + 1) * turnMs + failed;
      assert.ok(Math.max(0, ...run.waits) <= bound, `waited ${Math.max(...run.waits)} ms, bound ${bound}`);
      // No slot is loaded for nobody.
      const wasted = group.reduce((sum, { failedLoads = 0 }) => sum + failedLoads, 0);
      assert.ok(run.loads <= asked.length + wasted, `${run.loads} loads for ${asked.length} requests`);
      answered += run.waits.length;
      abandoned += run.gaveUp;
    });
    fc.assert(holds);
    assert.ok(answered > 1000 && abandoned > 20, `${answered} answered, ${abandoned} given up`);
  });
});

describe("a group whose slots are swapped and loaded in any order", () => {
  interface Slot {
    size: number;
    next: number | undefined;
    state: "offline" | "requesting" | "loading" | "ready" | "leaving";
    isBusy: boolean;
  }
  const event = fc.record({
    do: fc.constantFrom("ask", "busy", "rest", "swap", "ready", "gone", "replace", "pass"),
    index: fc.nat(3),
    size: fc.integer({ min: 1, max: 24 }),
    ms: fc.integer({ min: 1, max: 60_000 }),
  });
  const rules: GroupRules = { group: "gpu", capacity: gib(20), maxWaitMs: 30_000, minResidencyMs: 0 };
  const memberOf = ({ size, next, state, isBusy }: Slot, index: number): Member => {
    const isPresent = state === "loading" || state === "ready" || state === "leaving";
    return member(`s${index}`, {
      needs: gib(size),
      isRequesting: state === "requesting",
      isPresent,
      isReady: state === "ready" || state === "leaving",
      isLeaving: state === "leaving",
      isBusy,
      ...(next === undefined || !isPresent ? {} : { next: { key: `${next}`, needs: gib(next) } }),
    });
  };

  it("never grants more than its budget, and never both the next engine and the leave", () => {
    let [granted, waited] = [0, 0];
    const check = (members: readonly Member[], { grants, nextGrants }: Admission): void => {
      const holding = members.flatMap((each) => {
        const grant = grants.get(each.name)?.state;
        const next = nextGrants.get(each.name)?.grant.state;
        if (grant === "leaving") assert.ok(each.isReady, `${each.name} loads, and is told to leave`);
        if (next === "waiting") waited += 1;
        if (next !== "granted") return each.isPresent || grant === "granted" ? [each] : [];
        granted += 1;
        assert.notEqual(grant, "leaving", each.name);
        return [grown(each)];
      });
      assert.deepEqual(exceeded(holding, rules.capacity), []);
    };
    const holds = fc.property(fc.array(event, { minLength: 20, maxLength: 80, size: "max" }), (events) => {
      const group = [6, 6, 9, 14].map((size): Slot => ({ size, next: undefined, state: "offline", isBusy: false }));
      let [entries, nowMs]: [Entries, number] = [new Map(), 0];
      let admission = admit(group.map(memberOf), rules, entries, nowMs);
      for (const each of events) {
        const slot = group[each.index];
        if (slot === undefined) continue;
        const isPresent = slot.state === "ready" || slot.state === "loading";
        const isGranted = admission.nextGrants.get(`s${each.index}`)?.grant.state === "granted";
        const replaced = { isBusy: false, size: slot.next ?? slot.size, next: undefined };
        if (each.do === "ask" && slot.state === "offline") slot.state = "requesting";
        if (each.do === "busy" && slot.state === "ready") slot.isBusy = true;
        if (each.do === "rest") slot.isBusy = false;
        if (each.do === "pass") nowMs += each.ms;
        if (each.do === "swap" && isPresent) slot.next = each.size;
        else if (each.do === "swap" && slot.state !== "leaving") slot.size = each.size;
        if (each.do === "ready" && slot.state === "loading") slot.state = "ready";
        if (each.do === "gone" && slot.state === "leaving") Object.assign(slot, { ...replaced, state: "offline" });
        if (each.do === "replace" && isPresent && isGranted) Object.assign(slot, { ...replaced, state: "loading" });
        const members = group.map(memberOf);
        admission = admit(members, rules, entries, nowMs);
        ({ entries } = admission);
        check(members, admission);
        for (const [index, one] of group.entries()) {
          const grant = admission.grants.get(`s${index}`)?.state;
          if (one.state === "requesting" && grant === "granted") one.state = "loading";
          if (one.state === "ready" && grant === "leaving") one.state = "leaving";
        }
      }
    });
    fc.assert(holds);
    assert.ok(granted > 100 && waited > 100, `${granted} granted, ${waited} waited`);
  });
});
