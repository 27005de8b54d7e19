import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { test } from "node:test";
import { backoffMs } from "../../src/operator/plan/backoff.ts";
import { systemClock, WorkQueue, type Done } from "../../src/operator/queue.ts";
import { ManualClock } from "../doubles/clock.ts";
import { fc } from "../support/fast-check.ts";

type Options = Partial<ConstructorParameters<typeof WorkQueue>[0]>;

/** A queue on a clock that a test moves, and the keys that it has begun to work on. No reconcile may fail. */
function queueOf(work: (key: string, queue: WorkQueue) => Promise<Done> | Done = () => ({}), options: Options = {}) {
  const seen: string[] = [];
  const clock = new ManualClock();
  const queue: WorkQueue = new WorkQueue({
    clock,
    onError: (key, error) => assert.fail(`${key}: ${String(error)}`),
    ...options,
    work: async (key) => {
      seen.push(key);
      return await work(key, queue);
    },
  });
  return { queue, seen, clock };
}

test("a requeue waits its time, and an event comes before it", async () => {
  const { queue, seen, clock } = queueOf(() => (seen.length === 1 ? { requeueMs: 1000 } : {}));
  const runsAfter = async (ms: number): Promise<number> => {
    clock.advance(ms);
    await queue.settled();
    return seen.length;
  };
  queue.add("a");
  await queue.settled();
  assert.equal(await runsAfter(999), 1);
  queue.add("a");
  assert.equal(await runsAfter(0), 2);
  assert.equal(await runsAfter(5000), 2, "the event replaced the planned requeue");
});

test("a reconcile that throws is retried with growing delays until it succeeds", async () => {
  const retries: number[] = [];
  const work = (): Done => {
    if (seen.length <= 3) throw new Error("not yet");
    return {};
  };
  const { queue, seen, clock } = queueOf(work, {
    backoff: { firstMs: 1000, limitMs: 300_000, random: () => 0.5 },
    onError: (_key, _error, retryMs) => retries.push(retryMs),
  });
  queue.add("a");
  for (const ms of [0, 1000, 2000, 4000]) {
    clock.advance(ms);
    await queue.settled();
  }
  assert.deepEqual([retries, seen.length], [[1000, 2000, 4000], 4]);
});

test("the first keys are reconciled although the queue is never empty", { timeout: 180_000 }, async () => {
  let isOver = false;
  let other = Promise.withResolvers<void>();
  // Each ends only once the other has begun again.
  const { queue, seen } = queueOf(async (key, own) => {
    if (key === "c") return {};
    other.resolve();
    other = Promise.withResolvers<void>();
    own.add(key);
    if (!isOver) await other.promise;
    return {};
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
  const gate = Promise.withResolvers<Done>();
  const { queue, clock } = queueOf(() => gate.promise, { concurrency: 1 });
  for (const key of ["a", "b"]) queue.add(key);
  clock.advance(250);
  assert.deepEqual([queue.depth, queue.oldestAgeMs], [1, 250]);
  gate.resolve({});
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
        const done: Record<string, number> = {};
        const running = new Set<string>();
        const work = async (key: string): Promise<Done> => {
          assert.ok(!running.has(key));
          running.add(key);
          assert.ok(running.size <= concurrency);
          done[key] = version[key] ?? 0;
          await Promise.resolve();
          running.delete(key);
          return {};
        };
        const { queue } = queueOf(work, { concurrency });
        for (const [key, yields] of adds) {
          version[key] = (version[key] ?? 0) + 1;
          queue.add(key);
          if (yields) await Promise.resolve();
        }
        await queue.settled();
        assert.deepEqual(done, version);
      },
    ),
  );
});

test("keys without a wait leave turns to the event loop, so that leadership is renewed and answers are read", async () => {
  const { queue, seen, clock } = queueOf(() => {
    // What one reconcile takes.
    clock.advance(2);
    return {};
  });
  const runsAtTurn: number[] = [];
  const turn = (): void => {
    runsAtTurn.push(seen.length);
    if (seen.length < 200) setImmediate(turn);
  };
  setImmediate(turn);
  for (let index = 0; index < 200; index += 1) queue.add(`slot-${index}`);
  await queue.settled();
  assert.equal(seen.length, 200);
  const longest = runsAtTurn.map((count, index) => count - (runsAtTurn[index - 1] ?? 0));
  assert.ok(Math.max(...longest) <= 40, `${Math.max(...longest)} in one turn`);
});

test("a key of an event does not wait for resyncs, and resyncs do not wait for the end of events", async () => {
  const gate = Promise.withResolvers<Done>();
  const { queue, seen, clock } = queueOf((key) => (key === "gate" ? gate.promise : {}), { concurrency: 1 });
  queue.add("gate");
  for (const key of ["due-1", "due-2"]) queue.addAfter(key, 1000);
  clock.advance(1000);
  for (const key of ["look-1", "look-2", "new-2"]) queue.addResync(key);
  for (const key of ["new-1", "new-2", "new-3"]) queue.add(key);
  assert.equal(queue.depth, 7);
  gate.resolve({});
  await queue.settled();
  assert.deepEqual(seen, ["gate", "due-1", "new-1", "new-2", "new-3", "due-2", "look-1", "look-2"]);
});

test("the system clock does not fire at once for a time that is longer than a timer can count", async () => {
  // Node would wait one millisecond: the later timer is due after that.
  using _task = systemClock.after(3_000_000_000, () => assert.fail("it has fired"));
  await sleep(2);
});

test("an earlier requeue is not lost when the wall clock is set ahead", async () => {
  const { queue, seen, clock } = queueOf();
  queue.addAfter("a", 30_000);
  clock.set(3_600_000);
  queue.addAfter("a", 1000);
  clock.advance(1000);
  await queue.settled();
  assert.deepEqual(seen, ["a"]);
  await queue.stop();
});
