import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { slotSpecSchema } from "../../../src/api/slot.ts";
import { returnCost, shownCost, type CostFacts } from "../../../src/operator/groups/return-cost.ts";
import { perToken } from "../../support/context-cost.ts";

describe("the cost of coming back", () => {
  const loaded = {
    lastLoad: { startedAt: "2026-01-01T00:00:00.000Z", startSeconds: 3, warmSeconds: 1 },
    decisions: {},
  };
  const decided = (value: string) => ({ decisions: { keepContext: { value, reason: "the spec" } } });
  const dropped = { at: "2026-01-01T00:00:00.000Z", result: "dropped", message: "", tokens: 0, bytes: 0 } as const;
  const context = { tokens: 6000, tokensPerSecond: 1000 };
  const kept: Partial<CostFacts> = {
    spec: slotSpecSchema.parse({ model: { default: "m", keepContext: { maxBytes: 4_000_000 } } }),
    model: { contextCost: perToken(500) },
    demand: [{ context }],
    status: { ...loaded, ...decided("on") },
  };
  const toRead = { loadSeconds: 4, contextTokens: 6000, contextSeconds: 6 };
  const table: readonly [what: string, facts: Partial<CostFacts>, expected: object][] = [
    ["is unknown of a slot that was never loaded", { status: undefined }, {}],
    ["is the time of the last load", {}, { loadSeconds: 4 }],
    ["and the tokens in the cache by the measured speed", { demand: [{ context }] }, toRead],
    ["or by 500 tokens a second", { demand: [{ context: { tokens: 6000 } }] }, { ...toRead, contextSeconds: 12 }],
    [
      "of several gateways that of the longest conversation",
      { demand: [{}, { context }, { context: { tokens: 10 } }] },
      toRead,
    ],
    ["tokens that are kept over an unload cost nothing", kept, { loadSeconds: 4 }],
    ["unless the engine cannot save them", { ...kept, status: { ...loaded, ...decided("off") } }, toRead],
    ["or the last ones were dropped", { ...kept, status: { ...loaded, ...decided("on"), context: dropped } }, toRead],
    [
      "or they are more than its limit",
      { ...kept, demand: [{ context: { ...context, tokens: 9000 } }] },
      { loadSeconds: 4, contextTokens: 9000, contextSeconds: 9 },
    ],
  ];
  for (const [what, facts, expected] of table)
    it(what, () => {
      const cost = returnCost({ status: loaded, spec: undefined, model: undefined, demand: [], ...facts });
      assert.deepEqual(cost, expected);
    });

  it("is published again only when it has changed by more than a quarter", () => {
    const first = { loadSeconds: 4, contextTokens: 1000, contextSeconds: 2 };
    assert.equal(shownCost({ ...first, contextTokens: 1200, contextSeconds: 2.4 }, first), first);
    const next = { ...first, contextTokens: 1300, contextSeconds: 2.60004 };
    assert.deepEqual(shownCost(next, first), { ...next, contextSeconds: 2.6 });
    assert.deepEqual(shownCost({ loadSeconds: 4 }, first), { loadSeconds: 4 });
  });
});
