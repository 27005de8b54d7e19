import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  conditionSchema,
  findCondition,
  nextConditions,
  type Condition,
  type ConditionClaim,
} from "../../src/api/conditions.ts";

const first = new Date("2026-01-01T00:00:00.000Z");
const second = new Date("2026-01-01T00:00:05.000Z");
const loaded: ConditionClaim = { type: "Ready", status: "True", reason: "Loaded", message: "tiny is loaded" };
const pulled: ConditionClaim = { type: "Reconciling", status: "True", reason: "Pulling", message: "" };

describe("conditions", () => {
  it("begin with the time at which they are first set", () => {
    assert.deepEqual(nextConditions([], [loaded], 3, first), [
      {
        type: "Ready",
        status: "True",
        observedGeneration: 3,
        lastTransitionTime: "2026-01-01T00:00:00.000Z",
        reason: "Loaded",
        message: "tiny is loaded",
      },
    ]);
  });

  it("keep the time while the status stays, at any change of reason and generation, and take the new time when it moves", () => {
    const before = nextConditions([], [loaded], 3, first);
    const [after] = nextConditions(before, [{ ...loaded, reason: "Other", message: "else" }], 4, second);
    assert.deepEqual(
      [after?.lastTransitionTime, after?.reason, after?.message, after?.observedGeneration],
      [first.toISOString(), "Other", "else", 4],
    );
    const [moved] = nextConditions(before, [{ ...loaded, status: "Unknown" }], 3, second);
    assert.equal(moved?.lastTransitionTime, second.toISOString());
  });

  it("are removed when no check sets them, and new when a check sets them again", () => {
    const before = nextConditions([], [loaded, pulled], 1, first);
    const without = nextConditions(before, [loaded], 1, first);
    assert.equal(findCondition(without, "Reconciling"), undefined);
    const again = nextConditions(without, [loaded, pulled], 1, second);
    assert.equal(findCondition(again, "Reconciling")?.lastTransitionTime, second.toISOString());
  });

  it("cut a message at the length that Kubernetes accepts", () => {
    const [condition] = nextConditions([], [{ ...loaded, message: "x".repeat(40_000) }], 1, first);
    assert.equal(condition?.message.length, 32_768);
    assert.ok(conditionSchema.safeParse(condition).success);
  });

  const good: Condition = {
    type: "Ready",
    status: "True",
    observedGeneration: 0,
    lastTransitionTime: "2026-01-01T00:00:00Z",
    reason: "Loaded",
    message: "",
  };
  const broken: readonly Partial<Record<keyof Condition, unknown>>[] = [
    { status: "true" },
    { reason: "" },
    { reason: "two words" },
    { reason: "1st" },
    { observedGeneration: -1 },
    { observedGeneration: 1.5 },
    { lastTransitionTime: "yesterday" },
    { message: "x".repeat(32_769) },
  ];
  it("have the shape of metav1.Condition, and no other", () => {
    assert.ok(conditionSchema.safeParse(good).success);
    for (const part of broken)
      assert.ok(!conditionSchema.safeParse({ ...good, ...part }).success, JSON.stringify(part).slice(0, 60));
  });
});
