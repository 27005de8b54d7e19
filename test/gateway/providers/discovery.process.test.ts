import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Discovery } from "../../../src/gateway/providers/discovery.ts";

/** A discovery whose provider answers as told, on a clock that the test moves. */
async function setUp(
  models: readonly string[],
  ...answers: readonly (readonly string[] | Error)[]
): Promise<
  Disposable & {
    readonly discovery: Discovery;
    readonly seen: string[];
    readonly asked: () => number;
    pass(ms: number): Promise<void>;
  }
> {
  mock.timers.enable({ apis: ["setTimeout"] });
  const left = [...answers];
  const seen: string[] = [];
  let asked = 0;
  const discovery = new Discovery({
    intervalMs: 60_000,
    retryMs: 5000,
    models,
    list() {
      asked += 1;
      const next = left.shift() ?? assert.fail("it was asked too often");
      return next instanceof Error ? Promise.reject(next) : Promise.resolve({ data: next.map((id) => ({ id })) });
    },
    onChange: () => seen.push("changed"),
    onProblem: (problem) => seen.push(problem ?? "fine"),
  });
  await nextTurn();
  return {
    discovery,
    seen,
    asked: () => asked,
    async pass(ms) {
      mock.timers.tick(ms);
      await nextTurn();
    },
    [Symbol.dispose]() {
      discovery[Symbol.dispose]();
      mock.timers.reset();
    },
  };
}

describe("discovery", () => {
  it("lists models at once and then at its interval, and reports only changes", async () => {
    using at = await setUp([], ["a"], ["a"], ["a", "b"]);
    assert.deepEqual([at.discovery.models, at.seen], [["a"], ["changed", "fine"]]);
    await at.pass(59_999);
    assert.equal(at.asked(), 1);
    await at.pass(1);
    assert.deepEqual([at.asked(), at.seen.length], [2, 3]);
    await at.pass(60_000);
    assert.deepEqual(
      [at.discovery.models, at.seen.slice(3)],
      [
        ["a", "b"],
        ["changed", "fine"],
      ],
    );
  });

  it("keeps the last good list through failures, and asks again sooner, then less often", async () => {
    const failure = new Error("no");
    using at = await setUp([], ["a"], failure, failure, failure, failure, failure, ["b"]);
    await at.pass(60_000);
    for (const [ms, count] of [
      [5000, 3],
      [10_000, 4],
      [20_000, 5],
      [40_000, 6],
    ] as const) {
      await at.pass(ms - 1);
      assert.equal(at.asked(), count - 1);
      await at.pass(1);
      assert.equal(at.asked(), count);
      assert.deepEqual(at.discovery.models, ["a"]);
    }
    await at.pass(60_000);
    assert.deepEqual([at.discovery.models, at.seen.slice(-2)], [["b"], ["changed", "fine"]]);
  });

  it("believes an empty list when it comes twice", async () => {
    using at = await setUp(["a"], [], ["a"], [], []);
    assert.deepEqual(at.discovery.models, ["a"]);
    await at.pass(60_000);
    await at.pass(60_000);
    assert.deepEqual(at.discovery.models, ["a"]);
    await at.pass(60_000);
    assert.deepEqual(at.discovery.models, []);
  });

  it("ends when it is disposed, and reports nothing afterwards", async () => {
    using at = await setUp([], ["a"]);
    at.discovery[Symbol.dispose]();
    await at.pass(600_000);
    assert.equal(at.asked(), 1);
  });
});
