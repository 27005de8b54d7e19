import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import { KeptItems } from "../../../src/gateway/protocols/kept-items.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { encode, failureOf } from "./bodies.ts";

const item = (id: string, length = 1): { id: string; text: string } => ({ id, text: "x".repeat(length) });

/** The item that is found. */
const find = (kept: KeptItems, owner: string, id: string): unknown => {
  const json = kept.find(owner, id);
  return json === undefined ? undefined : JSON.parse(json.toString());
};

function open({ limitBytes = 10_000, budgetBytes = 1_000_000 } = {}): {
  kept: KeptItems;
  budget: BufferBudget;
  pass: (ms: number) => void;
} {
  const budget = new BufferBudget(budgetBytes);
  let now = 0;
  const kept = new KeptItems({ budget, limitBytes, lifeMs: 1000, now: () => now });
  return { kept, budget, pass: (ms) => void (now += ms) };
}

describe("items that are kept", () => {
  it("are found unchanged, and only by their own clients", () => {
    const { kept } = open();
    using _kept = kept;
    kept.keep("anna", item("1"));
    assert.deepEqual(find(kept, "anna", "1"), item("1"));
    assert.deepEqual([find(kept, "bert", "1"), find(kept, "anna", "2")], [undefined, undefined]);
    kept.keep("anna", { text: "without a name" });
    kept.keep("anna", item("1", 3));
    assert.deepEqual(find(kept, "anna", "1"), item("1", 3), "the last one of that name");
  });

  it("are removed when unused for long, the least recently used first", () => {
    const { kept, budget, pass } = open();
    using _kept = kept;
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

  it("expire although nobody asks for them", (test) => {
    test.mock.timers.enable({ apis: ["setInterval"] });
    const { kept, budget, pass } = open();
    using _kept = kept;
    kept.keep("anna", item("1"));
    pass(600);
    kept.keep("anna", item("2"));
    pass(600);
    test.mock.timers.tick(100);
    assert.equal(kept.bytes, budget.usedBytes);
    assert.deepEqual([find(kept, "anna", "1"), find(kept, "anna", "2")], [undefined, item("2")]);
    pass(1001);
    test.mock.timers.tick(100);
    assert.deepEqual([kept.bytes, budget.usedBytes], [0, 0]);
  });

  it("displace items of the client that has the most", () => {
    const { kept } = open();
    using _kept = kept;
    kept.keep("anna", item("1", 1000));
    for (let at = 0; at < 100; at++) kept.keep("bert", item(String(at), 1000));
    assert.deepEqual(find(kept, "anna", "1"), item("1", 1000));
    assert.deepEqual([find(kept, "bert", "0"), find(kept, "bert", "99")], [undefined, item("99", 1000)]);
    assert.ok(kept.bytes <= 10_000);
  });

  it("count in the budget of bodies, and are dropped for these", () => {
    const { kept, budget } = open({ budgetBytes: 5000 });
    using _kept = kept;
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
  using kept = new KeptItems({ budget: new BufferBudget(1024 ** 3), limitBytes: 1024 ** 3, lifeMs: 1000 });
  const text = "x".repeat(1_000_000);
  const ids = Array.from({ length: 18 }, (_, at) => `msg_${at}`);
  for (const id of ids)
    kept.keep("anna", { id, type: "message", role: "assistant", content: [{ type: "output_text", text }] });
  const named = (count: number): Buffer =>
    new ResponsesTranslation({ keep: () => undefined, find: (id) => kept.find("anna", id) }).request(
      encode({ model: "m", input: ids.slice(0, count).map((id) => ({ type: "item_reference", id })) }),
    );
  assert.ok(named(2).length > 2_000_000);
  const { code, details } = failureOf(() => named(18));
  assert.deepEqual([code, details?.["path"]], ["dispatch.invalid_request", ["input", 16]]);
});
