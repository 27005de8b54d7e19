import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Limiter } from "../../../src/gateway/upstreams/limiter.ts";
import { fc } from "../../support/fast-check.ts";

describe("limiter", () => {
  it("gives turns in order, and refuses beyond the queue", async () => {
    const limiter = new Limiter({ max: 1, queue: 2 });
    const turns: string[] = [];
    const places = ["a", "b", "c", "d"].map((name) => limiter.enter(() => turns.push(name)));
    assert.deepEqual(turns, [], "never within the call");
    await Promise.resolve();
    assert.deepEqual(turns, ["a"]);
    assert.equal(places[3], undefined);
    assert.deepEqual([limiter.busy, limiter.waiting], [1, 2]);
    const positions = (): number[] => places.map((leave) => (leave === undefined ? -1 : limiter.position(leave)));
    assert.deepEqual(positions(), [0, 1, 2, -1]);
    places[0]?.();
    places[0]?.();
    await Promise.resolve();
    assert.deepEqual(turns, ["a", "b"]);
    assert.deepEqual([limiter.busy, limiter.waiting], [1, 1]);
    assert.deepEqual(positions(), [0, 0, 1, -1]);
  });

  it("skips who gave up waiting, also between the place and the turn", async () => {
    const limiter = new Limiter({ max: 1, queue: 3 });
    const turns: string[] = [];
    const places = ["a", "b", "c", "d"].map((name) => limiter.enter(() => turns.push(name)));
    await Promise.resolve();
    places[1]?.();
    places[0]?.();
    places[2]?.();
    await Promise.resolve();
    assert.deepEqual(turns, ["a", "d"]);
    places[3]?.();
    assert.deepEqual([limiter.busy, limiter.waiting], [0, 0]);
  });

  it("lets all in without a bound", () => {
    const limiter = new Limiter({ max: Infinity, queue: 0 });
    assert.ok(Array.from({ length: 100 }, () => limiter.enter(() => undefined)).every((place) => place !== undefined));
    assert.equal(limiter.busy, 100);
  });

  it("keeps its bounds, forgets nobody and serves in order", async () => {
    const shape = fc.record({
      max: fc.integer({ min: 1, max: 3 }),
      queue: fc.nat(3),
      steps: fc.array(fc.oneof(fc.constant("enter" as const), fc.nat(10)), { maxLength: 60, size: "max" }),
    });
    await fc.assert(
      fc.asyncProperty(shape, async ({ max, queue, steps }) => {
        const limiter = new Limiter({ max, queue });
        const turns: number[] = [];
        const present = new Map<number, () => void>();
        let next = 0;
        for (const step of steps) {
          if (step === "enter") {
            const name = next++;
            const isFull = limiter.busy === max && limiter.waiting === queue;
            const leave = limiter.enter(() => turns.push(name));
            assert.equal(leave === undefined, isFull);
            if (leave !== undefined) present.set(name, leave);
          } else {
            const name = [...present.keys()][step % Math.max(1, present.size)];
            if (name !== undefined) present.get(name)?.();
            if (name !== undefined) present.delete(name);
          }
          await Promise.resolve();
          assert.equal(limiter.busy, Math.min(max, present.size));
          assert.equal(limiter.busy + limiter.waiting, present.size);
          const served = new Set(turns);
          assert.ok([...present.keys()].slice(0, limiter.busy).every((name) => served.has(name)));
        }
        assert.deepEqual(
          turns,
          turns.toSorted((a, b) => a - b),
        );
        assert.equal(new Set(turns).size, turns.length);
      }),
    );
  });
});
