import assert from "node:assert/strict";
import { test } from "node:test";
import { backoffMs } from "../../src/operator/plan/backoff.ts";
import { systemClock, WorkQueue } from "../../src/operator/queue.ts";
import { ManualClock } from "../doubles/clock.ts";
import { fc } from "../support/fast-check.ts";

const noError = (): void => assert.fail("no reconcile should fail here");

test("a key added twice before it runs is worked on once", async () => {
  const seen: string[] = [];
  const queue = new WorkQueue({
    concurrency: 1,
    onError: noError,
    work: async (key) => {
      seen.push(key);
      return {};
    },
  });
  queue.add("a");
  queue.add("b");
  queue.add("b");
  await queue.settled();
  assert.deepEqual(seen, ["a", "b"]);
});

test("a key added while it runs is worked on once more, never at the same time", async () => {
  let running = 0;
  let runs = 0;
  const gate = Promise.withResolvers<void>();
  const queue = new WorkQueue({
    onError: noError,
    work: async () => {
      running += 1;
      runs += 1;
      assert.equal(running, 1);
      if (runs === 1) await gate.promise;
      running -= 1;
      return {};
    },
  });
  queue.add("a");
  queue.add("a");
  queue.add("a");
  gate.resolve();
  await queue.settled();
  assert.equal(runs, 2);
});

test("a requeue waits its time, and an event comes before it", async () => {
  const clock = new ManualClock();
  let runs = 0;
  const queue = new WorkQueue({
    clock,
    onError: noError,
    work: async () => {
      runs += 1;
      return runs === 1 ? { requeueMs: 1000 } : {};
    },
  });
  queue.add("a");
  await queue.settled();
  clock.advance(999);
  await queue.settled();
  assert.equal(runs, 1);
  queue.add("a");
  await queue.settled();
  assert.equal(runs, 2);
  clock.advance(5000);
  await queue.settled();
  assert.equal(runs, 2, "the event replaced the planned requeue");
});

test("a reconcile that throws is retried with growing delays until it succeeds", async () => {
  const clock = new ManualClock();
  const retries: number[] = [];
  let runs = 0;
  const queue = new WorkQueue({
    clock,
    backoff: { firstMs: 1000, limitMs: 300_000, random: () => 0.5 },
    onError: (_key, _error, retryMs) => retries.push(retryMs),
    work: async () => {
      runs += 1;
      if (runs <= 3) throw new Error("not yet");
      return {};
    },
  });
  queue.add("a");
  for (const ms of [0, 1000, 2000, 4000]) {
    clock.advance(ms);
    await queue.settled();
  }
  assert.deepEqual(retries, [1000, 2000, 4000]);
  assert.equal(runs, 4);
});

test("stop waits for running work and starts no more", async () => {
  const gate = Promise.withResolvers<void>();
  const seen: string[] = [];
  const queue = new WorkQueue({
    concurrency: 1,
    onError: noError,
    work: async (key) => {
      seen.push(key);
      await gate.promise;
      return { requeueMs: 0 };
    },
  });
  queue.add("a");
  queue.add("b");
  const stopped = queue.stop();
  gate.resolve();
  await stopped;
  assert.deepEqual(seen, ["a"]);
});

test("the first keys are reconciled although the queue is never empty", { timeout: 180_000 }, async () => {
  const seen: string[] = [];
  let isOver = false;
  let other = Promise.withResolvers<void>();
  // Each ends only once the other has begun again.
  const queue: WorkQueue = new WorkQueue({
    onError: noError,
    work: async (key) => {
      seen.push(key);
      if (key === "c") return {};
      other.resolve();
      other = Promise.withResolvers<void>();
      queue.add(key);
      if (!isOver) await other.promise;
      return {};
    },
  });
  for (const key of ["a", "b", "c"]) queue.add(key);
  await queue.passed();
  assert.deepEqual([...new Set(seen)].toSorted(), ["a", "b", "c"]);
  isOver = true;
  other.resolve();
  await queue.stop();
  await queue.passed();
});

test("age and depth describe the waiting keys", async () => {
  const clock = new ManualClock();
  const gate = Promise.withResolvers<void>();
  const queue = new WorkQueue({
    clock,
    concurrency: 1,
    onError: noError,
    work: async () => {
      await gate.promise;
      return {};
    },
  });
  queue.add("a");
  queue.add("b");
  clock.advance(250);
  assert.deepEqual([queue.depth, queue.oldestAgeMs], [1, 250]);
  gate.resolve();
  await queue.settled();
  assert.deepEqual([queue.depth, queue.oldestAgeMs], [0, 0]);
});

test("backoff grows from the first delay, within ten percent, and never beyond the limit", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.double({ min: 0, max: 0.999, noNaN: true }), (failures, random) => {
      const exact = Math.min(300_000 / 1.1, 1000 * 2 ** (failures - 1));
      const delay = backoffMs(failures, { firstMs: 1000, limitMs: 300_000, random: () => random });
      assert.ok(delay >= exact * 0.9 - 1 && delay <= Math.min(300_000, exact * 1.1 + 1));
    }),
  );
});

test("property: after any adds, every key's last add is followed by a run, and runs of a key never overlap", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom("a", "b", "c"), fc.boolean()), { maxLength: 40, size: "max" }),
      fc.integer({ min: 1, max: 4 }),
      async (adds, concurrency) => {
        const version: Record<string, number> = {};
        const seen: Record<string, number> = {};
        const running = new Set<string>();
        const queue = new WorkQueue({
          concurrency,
          onError: noError,
          work: async (key) => {
            assert.ok(!running.has(key));
            running.add(key);
            assert.ok(running.size <= concurrency);
            seen[key] = version[key] ?? 0;
            await Promise.resolve();
            running.delete(key);
            return {};
          },
        });
        for (const [key, yields] of adds) {
          version[key] = (version[key] ?? 0) + 1;
          queue.add(key);
          if (yields) await Promise.resolve();
        }
        await queue.settled();
        assert.deepEqual(seen, version);
      },
    ),
  );
});

test("keys without a wait leave turns to the event loop, so that leadership is renewed and answers are read", async () => {
  const clock = new ManualClock();
  let runs = 0;
  const queue = new WorkQueue({
    clock,
    onError: noError,
    work: async () => {
      runs += 1;
      // What one reconcile takes.
      clock.advance(2);
      return {};
    },
  });
  const runsAtTurn: number[] = [];
  const turn = (): void => {
    runsAtTurn.push(runs);
    if (runs < 1000) setImmediate(turn);
  };
  setImmediate(turn);
  for (let index = 0; index < 1000; index += 1) queue.add(`slot-${index}`);
  await queue.settled();
  assert.equal(runs, 1000);
  const longest = runsAtTurn.map((count, index) => count - (runsAtTurn[index - 1] ?? 0));
  assert.ok(Math.max(...longest) <= 40, `${Math.max(...longest)} in one turn`);
});

test("a key of an event does not wait for resyncs, and resyncs do not wait for the end of events", async () => {
  const clock = new ManualClock();
  const gate = Promise.withResolvers<void>();
  const seen: string[] = [];
  const queue = new WorkQueue({
    clock,
    concurrency: 1,
    onError: noError,
    work: async (key) => {
      if (key === "gate") await gate.promise;
      seen.push(key);
      return {};
    },
  });
  queue.add("gate");
  for (const key of ["due-1", "due-2"]) queue.addAfter(key, 1000);
  clock.advance(1000);
  for (const key of ["look-1", "look-2", "new-2"]) queue.addResync(key);
  for (const key of ["new-1", "new-2", "new-3"]) queue.add(key);
  assert.equal(queue.depth, 7);
  gate.resolve();
  await queue.settled();
  assert.deepEqual(seen, ["gate", "due-1", "new-1", "new-2", "new-3", "due-2", "look-1", "look-2"]);
});

test("resyncs are not delayed by events that never end", { timeout: 180_000 }, async () => {
  const seen = new Set<string>();
  const queue: WorkQueue = new WorkQueue({
    concurrency: 1,
    onError: noError,
    work: async (key) => {
      seen.add(key);
      if (key === "busy" && seen.size < 4) queue.add(key);
      return {};
    },
  });
  queue.add("busy");
  for (const key of ["a", "b", "c"]) queue.addResync(key);
  await queue.settled();
  assert.deepEqual([...seen].toSorted(), ["a", "b", "busy", "c"]);
});

test("the system clock does not fire at once for a time that is longer than a timer can count", async () => {
  // Node says so, and then waits one millisecond.
  const warnings: string[] = [];
  const onWarning = ({ name }: Error): void => void warnings.push(name);
  process.on("warning", onWarning);
  using _task = systemClock.after(3_000_000_000, () => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  process.off("warning", onWarning);
  assert.deepEqual(warnings, []);
});

test("an earlier requeue is not lost when the wall clock is set ahead", async () => {
  const clock = new ManualClock();
  let runs = 0;
  const queue = new WorkQueue({
    clock,
    onError: noError,
    work: async () => {
      runs += 1;
      return {};
    },
  });
  queue.addAfter("a", 30_000);
  clock.set(3_600_000);
  queue.addAfter("a", 1000);
  clock.advance(1000);
  await queue.settled();
  assert.equal(runs, 1);
  await queue.stop();
});
