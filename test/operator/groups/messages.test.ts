import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { admit } from "../../../src/operator/groups/admit.ts";
import { overBudgetMessage } from "../../../src/operator/groups/messages.ts";
import type { GroupRules } from "../../../src/operator/groups/place.ts";
import { gib, members, slots } from "./members.ts";

const times = { maxWaitMs: 60_000, minResidencyMs: 0 };
const oneSlot: GroupRules = { ...slots(1), ...times };
const memory: GroupRules = { group: "gpu", capacity: gib(24), ...times };

describe("the message of a slot without room", () => {
  const full = "group gpu is full: ";
  const table: readonly (readonly [group: string, rules: GroupRules, expected: string])[] = [
    ["a ready, b asks", oneSlot, `${full}a has its place`],
    ["a loads startup=40, b asks", oneSlot, `${full}a has its place; a still loads, for 40 s at most`],
    [
      "a ready pinned, b asks",
      oneSlot,
      `${full}a has its place; a is pinned, and leaves only when it is idle for its own idle time`,
    ],
    ["a ready always, b asks", oneSlot, `${full}a has its place and never leaves, being always loaded`],
    [
      "a needs=12 ready pinned, b needs=8 loads, c needs=10 asks",
      memory,
      `${full}it needs 10.0 GiB, and of 24.0 GiB of memory a holds 12.0 GiB (is pinned, and leaves only when it is idle for its own idle time) and b holds 8.0 GiB (still loads)`,
    ],
    [
      "a needs=30 asks",
      memory,
      "group gpu has too little for it: it needs 30.0 GiB, and the group has 24.0 GiB of memory; a smaller model or a larger budget helps",
    ],
    [
      "a needs=20 ready always, b needs=20 asks",
      memory,
      `${full}it needs 20.0 GiB, and of 24.0 GiB of memory a holds 20.0 GiB (is always loaded); always loaded slots never leave`,
    ],
    [
      "a needs=10 leaves, b needs=24 unknown asks",
      memory,
      `${full}what it needs is not known, so that it is loaded alone the first time, and of 24.0 GiB of memory a holds 10.0 GiB (leaves)`,
    ],
  ];
  for (const [group, rules, expected] of table)
    it(expected, () => {
      const grants = [...admit(members(group), rules, new Map(), 0).grants.values()];
      const messages = grants.flatMap((grant) => (grant.state === "waiting" ? [grant.message] : []));
      assert.deepEqual(messages, [expected]);
    });

  it("a budget that is exceeded: what the loaded slots hold, and the budget", () => {
    const held = members("a needs=10 ready, b needs=8 ready");
    assert.equal(
      overBudgetMessage("gpu", held, gib(15)),
      "group gpu holds 18.0 GiB of memory, and its budget is 15.0 GiB",
    );
    assert.equal(overBudgetMessage("gpu", held, gib(18)), undefined);
  });
});
