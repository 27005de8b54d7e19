import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fits } from "../../../src/operator/groups/amounts.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import { fc } from "../../support/fast-check.ts";
import { gib, slots } from "./members.ts";
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
