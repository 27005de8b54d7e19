import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { slotSpecSchema } from "../../../src/api/slot.ts";
import { admit } from "../../../src/operator/groups/admit.ts";
import type { GroupRules } from "../../../src/operator/groups/rules.ts";
import type { Member } from "../../../src/operator/groups/member.ts";
import { returnCost, shownCost, type CostFacts } from "../../../src/operator/groups/return-cost.ts";
import { custom, Site } from "../site.ts";
import { perToken } from "../../support/context-cost.ts";
import { requesting, member, ready, slots } from "./members.ts";

const loaded = { lastLoad: { startedAt: "2026-01-01T00:00:00.000Z", startSeconds: 3, warmSeconds: 1 }, decisions: {} };
const keeping = { keepContext: { value: "on", reason: "the spec" } };
const spec = slotSpecSchema.parse({ model: { default: "m", keepContext: { maxBytes: 4_000_000 } } });

function cost(more: Partial<CostFacts>): object {
  return returnCost({ status: loaded, spec: undefined, model: undefined, demand: [], ...more });
}

describe("the cost of coming back", () => {
  const context = { tokens: 6000, tokensPerSecond: 1000 };
  const model = { contextCost: perToken(500) };
  const kept: Partial<CostFacts> = { spec, model, demand: [{ context }], status: { ...loaded, decisions: keeping } };
  const table: readonly [what: string, facts: Partial<CostFacts>, expected: object][] = [
    ["is nothing known of a slot that was never loaded", { status: undefined }, {}],
    ["is the time of the last load", {}, { loadSeconds: 4 }],
    [
      "and the tokens in the cache by the measured speed",
      { demand: [{ context }] },
      { loadSeconds: 4, contextTokens: 6000, contextSeconds: 6 },
    ],
    [
      "or by 500 tokens a second",
      { demand: [{ context: { tokens: 6000 } }] },
      { loadSeconds: 4, contextTokens: 6000, contextSeconds: 12 },
    ],
    [
      "of several gateways that of the longest conversation",
      { demand: [{}, { context }, { context: { tokens: 10 } }] },
      { loadSeconds: 4, contextTokens: 6000, contextSeconds: 6 },
    ],
    ["tokens that are kept over an unload cost nothing", kept, { loadSeconds: 4 }],
    [
      "unless the engine cannot save them",
      { ...kept, status: { ...loaded, decisions: { keepContext: { value: "off", reason: "no" } } } },
      { loadSeconds: 4, contextTokens: 6000, contextSeconds: 6 },
    ],
    [
      "or the last ones were dropped",
      {
        ...kept,
        status: {
          ...loaded,
          decisions: keeping,
          context: { at: "2026-01-01T00:00:00.000Z", result: "dropped", message: "", tokens: 0, bytes: 0 },
        },
      },
      { loadSeconds: 4, contextTokens: 6000, contextSeconds: 6 },
    ],
    [
      "or they are more than its limit",
      { ...kept, demand: [{ context: { tokens: 9000, tokensPerSecond: 1000 } }] },
      { loadSeconds: 4, contextTokens: 9000, contextSeconds: 9 },
    ],
  ];
  for (const [what, facts, expected] of table) it(what, () => assert.deepEqual(cost(facts), expected));

  it("is published again only when it has changed by more than a quarter", () => {
    const first = { loadSeconds: 4, contextTokens: 1000, contextSeconds: 2 };
    assert.equal(shownCost({ ...first, contextTokens: 1200, contextSeconds: 2.4 }, first), first);
    const next = { ...first, contextTokens: 1300, contextSeconds: 2.60004 };
    assert.deepEqual(shownCost(next, first), { ...next, contextSeconds: 2.6 });
    assert.deepEqual(shownCost({ loadSeconds: 4 }, first), { loadSeconds: 4 });
  });
});

describe("a group", () => {
  const rules: GroupRules = { ...slots(2), maxWaitMs: 60_000, minResidencyMs: 0 };
  const leaving = (...members: readonly Member[]): string => {
    const told = [...admit([...members, member("new", requesting)], rules, new Map(), 0).grants];
    return told.flatMap(([name, { state }]) => (state === "leaving" ? [name] : [])).join();
  };

  it("lets the slot stay that would have to process a long conversation again", () => {
    const quick = { ...ready, idleMs: 9000, cost: { loadSeconds: 2 } };
    const long = { ...ready, idleMs: 9000, cost: { loadSeconds: 1 } };
    assert.equal(leaving(member("long", long), member("quick", quick)), "long");
    const read = { loadSeconds: 1, contextTokens: 8000, contextSeconds: 8 };
    assert.equal(leaving(member("long", { ...long, cost: read }), member("quick", quick)), "quick");
    // A long conversation that nobody has gone on with for long is worth less.
    assert.equal(leaving(member("long", { ...long, idleMs: 90_000, cost: read }), member("quick", quick)), "long");
  });

  it("shows the cost of coming back in the leaving slot's plan, and in its own status for all loaded slots", async () => {
    await using site = new Site();
    site.source.group("gpu", { budget: { slots: 2 }, minResidencySeconds: 0 });
    const spec = custom({ load: "onDemand", idleSeconds: 600, group: "gpu" });
    for (const slot of ["a", "b", "c"]) site.source.save(slot, spec);
    await site.start();
    const ask = (slot: string): void =>
      site.demand.set(slot, { held: 1, lastRequestAt: site.clock.now().toISOString() });
    ask("a");
    ask("b");
    await site.advance(10);
    const context = { tokens: 6000, tokensPerSecond: 1000 };
    site.demand.set("a", { held: 0, context });
    site.demand.set("b", { held: 0, context: { ...context, tokens: 1000 } });
    await site.advance(1);
    const costs = site.groupStore.published()[0]?.members.map(({ slot, cost }) => [slot, cost?.contextSeconds]);
    assert.deepEqual(costs, [
      ["a", 6],
      ["b", 1],
      ["c", undefined],
    ]);
    ask("c");
    await site.advance(10);
    assert.deepEqual([site.state("a"), site.state("b"), site.state("c")], ["ready", "offline", "ready"]);
    assert.match(
      site.slot("b").status.transitions.at(-2)?.message ?? "",
      /^slot c waits for its place in group gpu; to come back takes about \d+ s: \d+ s to load, 1 s to read 1000 tokens of its cache again$/,
    );
  });
});
