import { fits } from "../../../src/operator/groups/amounts.ts";
import type { GroupRules } from "../../../src/operator/groups/place.ts";
import { fc } from "../../support/fast-check.ts";
import { gib, slots } from "./members.ts";
import type { SimulatedRequest, SimulatedSlot } from "./simulation.ts";

/** The requests of ten minutes at a group whose budget is of slots or of bytes. */
export interface GroupLoad {
  readonly group: readonly SimulatedSlot[];
  readonly rules: GroupRules;
  readonly requests: readonly SimulatedRequest[];
}

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
/** At most one slot of the group is pinned, and it leaves room to each other slot. */
export const groupLoad: fc.Arbitrary<GroupLoad> = fc
  .record({
    drawn: fc.array(slot, { minLength: 2, maxLength: 5, size: "max" }),
    budget: fc.oneof(
      fc.record({ kind: fc.constant("slots" as const), most: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ kind: fc.constant("bytes" as const), most: fc.integer({ min: 16, max: 32 }) }),
    ),
    pinned: fc.option(fc.nat(4), { nil: undefined }),
    minResidencyMs: fc.constantFrom(0, 1000, 30_000),
    maxWaitMs: fc.constantFrom(0, 5000, 60_000),
    requests: fc.array(request, { maxLength: 60, size: "max" }),
  })
  .map(({ drawn, budget, pinned, requests, ...times }) => {
    const needsOf = (size: number) => (budget.kind === "slots" ? new Map([["slots", 1]]) : gib(size));
    const group = drawn.map(({ gib: size, ...more }, index): SimulatedSlot => ({
      name: `s${index}`,
      needs: needsOf(size),
      ...more,
    }));
    const capacity = budget.kind === "slots" ? slots(budget.most).capacity : gib(budget.most);
    const keeper = pinned === undefined ? undefined : group[pinned];
    // A pinned slot that leaves no room to others would make them wait for an edit.
    const isPinned = keeper !== undefined && group.every((one) => one === keeper || fits([keeper, one], capacity));
    return {
      group: group.map((one) => ({ ...one, isPinned: isPinned && one === keeper })),
      rules: { group: "gpu", capacity, ...times },
      requests: requests.filter((each) => each.slot < group.length),
    };
  });
