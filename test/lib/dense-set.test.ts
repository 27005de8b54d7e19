import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { fc } from "../support/fast-check.ts";
import { DenseSet } from "../../src/lib/dense-set.ts";

interface Item {
  denseIndex: number;
  readonly id: number;
}

const item = (id: number): Item => ({ denseIndex: -1, id });

test("it has the members that a Set has, after any adding and deleting", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.boolean(), fc.nat(9))), (steps) => {
      const items = Array.from({ length: 10 }, (_, id) => item(id));
      const dense = new DenseSet<Item>();
      const model = new Set<Item>();
      for (const [isAdded, id] of steps) {
        const member = items[id] ?? item(id);
        if (isAdded) {
          dense.add(member);
          model.add(member);
        } else {
          dense.delete(member);
          model.delete(member);
        }
        assert.equal(dense.size, model.size);
      }
      const ids = (members: Iterable<Item>): number[] => [...members].map(({ id }) => id).toSorted((a, b) => a - b);
      assert.deepEqual(ids(dense.toArray()), ids(model));
    }),
  );
});

test("members that have left are free at the next young collection, as they are not with a Set", () => {
  setFlagsFromString("--expose-gc");
  const gc: unknown = runInNewContext("gc");
  assert.ok(typeof gc === "function");
  const dense = new DenseSet<Item & { readonly payload: readonly number[] }>();
  const underWay: (Item & { readonly payload: readonly number[] })[] = [];
  const churn = (count: number): void => {
    for (let id = 0; id < count; id++) {
      const member = { ...item(id), payload: Array.from({ length: 128 }, (_, at) => at + id) };
      dense.add(member);
      underWay.push(member);
      if (underWay.length <= 32) continue;
      const [gone] = underWay.splice(0, 1);
      if (gone !== undefined) dense.delete(gone);
    }
  };
  churn(100);
  // What the set consists of is old from here on.
  gc();
  gc();
  const before = process.memoryUsage().heapUsed;
  for (let round = 0; round < 50; round++) {
    churn(400);
    gc({ type: "minor" });
  }
  const grownBytes = process.memoryUsage().heapUsed - before;
  assert.ok(grownBytes < 1_000_000, `${grownBytes} bytes of 20 MB are kept`);
});
