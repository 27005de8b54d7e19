import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BufferBudget } from "../../../src/gateway/slots/budget.ts";
import { KeptItems } from "../../../src/gateway/protocols/kept-items.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { until } from "../../support/until.ts";
import { encode, refusedAt } from "./bodies.ts";

const item = (id: string, length = 1): { id: string; text: string } => ({ id, text: "x".repeat(length) });

/** The item that is found. */
const find = (kept: KeptItems, owner: string, id: string): unknown => {
  const json = kept.find(owner, id);
  return json === undefined ? undefined : JSON.parse(json.toString());
};

function open({ limitBytes = 10_000, budgetBytes = 1_000_000, lifeMs = 1000 } = {}) {
  const budget = new BufferBudget(budgetBytes);
  let now = 0;
  const kept = new KeptItems({ budget, limitBytes, lifeMs, now: () => now });
  const pass = (ms: number): void => void (now += ms);
  return { kept, budget, pass, [Symbol.dispose]: () => kept[Symbol.dispose]() };
}

describe("items that are kept", () => {
  it("are found unchanged, and only by their own clients", () => {
    using site = open();
    const { kept } = site;
    kept.keep("anna", item("1"));
    assert.deepEqual(find(kept, "anna", "1"), item("1"));
    assert.deepEqual([find(kept, "bert", "1"), find(kept, "anna", "2")], [undefined, undefined]);
    kept.keep("anna", { text: "without a name" });
    kept.keep("anna", item("1", 3));
    assert.deepEqual(find(kept, "anna", "1"), item("1", 3), "the last one of that name");
  });

  it("are removed when unused for long, the least recently used first", () => {
    using site = open();
    const { kept, budget, pass } = site;
    for (const id of ["1", "2"]) kept.keep("anna", item(id, 4000));
    find(kept, "anna", "1");
    kept.keep("anna", item("3", 4000));
    assert.deepEqual([find(kept, "anna", "2"), find(kept, "anna", "1")], [undefined, item("1", 4000)]);
    pass(900);
    find(kept, "anna", "1");
    pass(900);
    assert.deepEqual([find(kept, "anna", "3"), find(kept, "anna", "1")], [undefined, item("1", 4000)]);
    pass(1001);
    assert.equal(find(kept, "anna", "1"), undefined);
    assert.deepEqual([kept.bytes, budget.usedBytes], [0, 0]);
  });

  it("expire although nobody asks for them", async () => {
    using site = open({ lifeMs: 10 });
    const { kept, budget, pass } = site;
    kept.keep("anna", item("1"));
    pass(6);
    kept.keep("anna", item("2"));
    const both = kept.bytes;
    pass(6);
    await until("the first has expired", () => kept.bytes < both);
    assert.equal(kept.bytes, budget.usedBytes);
    assert.deepEqual([find(kept, "anna", "1"), find(kept, "anna", "2")], [undefined, item("2")]);
    pass(11);
    await until("both have expired", () => kept.bytes === 0 && budget.usedBytes === 0);
  });

  it("displace items of the client that has the most", () => {
    using site = open();
    const { kept } = site;
    kept.keep("anna", item("1", 1000));
    for (let at = 0; at < 100; at++) kept.keep("bert", item(String(at), 1000));
    assert.deepEqual(find(kept, "anna", "1"), item("1", 1000));
    assert.deepEqual([find(kept, "bert", "0"), find(kept, "bert", "99")], [undefined, item("99", 1000)]);
    assert.ok(kept.bytes <= 10_000);
  });

  it("count in the budget of bodies, and are dropped for these", () => {
    using site = open({ budgetBytes: 5000 });
    const { kept, budget } = site;
    kept.keep("anna", item("1", 2000));
    assert.ok(budget.usedBytes > 2000);
    kept.keep("anna", item("2", 3000));
    assert.deepEqual([find(kept, "anna", "2"), budget.usedBytes], [undefined, kept.bytes], "there is no room");
    kept.keep("anna", item("3", 20_000));
    assert.deepEqual(find(kept, "anna", "1"), item("1", 2000), "what is too long pushes nothing out");
    kept[Symbol.dispose]();
    assert.equal(budget.usedBytes, 0);
  });
});

it("a short request cannot name more of them than a body may hold", () => {
  using kept = new KeptItems({ budget: new BufferBudget(1024 ** 3), limitBytes: 1024 ** 3, lifeMs: 60_000 });
  const content = [{ type: "output_text", text: "x".repeat(1_000_000) }];
  const ids = Array.from({ length: 18 }, (_, at) => `msg_${at}`);
  for (const id of ids) kept.keep("anna", { id, type: "message", role: "assistant", content });
  const own = { keep: () => undefined, find: (id: string) => kept.find("anna", id) };
  const named = (count: number): Buffer => {
    const input = ids.slice(0, count).map((id) => ({ type: "item_reference", id }));
    return new ResponsesTranslation(own).request(encode({ model: "m", input }));
  };
  assert.ok(named(2).length > 2_000_000);
  refusedAt("input.16", () => named(18));
});
