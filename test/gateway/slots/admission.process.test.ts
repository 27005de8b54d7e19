import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { Admission } from "../../../src/gateway/slots/admission.ts";
import type { Refusal } from "../../../src/gateway/slots/slot-queue.ts";
import type { Waiter, WaitQueue } from "../../../src/gateway/slots/wait-queue.ts";
import type { BackendLease } from "../../../src/gateway/slots/backend-set.ts";
import { BufferBudget } from "../../../src/gateway/slots/budget.ts";
import { buildIndex } from "../../../src/gateway/routing/index.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { publishedSlot, type SlotSketch } from "../../support/gateway.ts";
import { thrownBy } from "../../support/rejection.ts";

/** Somebody who wants in, and everything it has been told. */
class Guest implements Waiter {
  readonly from: Waiter["from"];
  readonly prompt = undefined;
  readonly told: string[] = [];
  lease: BackendLease | undefined;
  line: WaitQueue | undefined;

  constructor(client = "c") {
    this.from = { client, hasBegun: false };
  }

  onAdmitted(): void {
    const lease = this.line?.backends.acquire(this);
    assert.ok(lease !== undefined);
    this.take(lease);
  }

  onRefused(refusal: Refusal): void {
    this.told.push(this.line?.failure(refusal).code ?? refusal);
  }

  take(lease: BackendLease): void {
    this.lease = lease;
    this.told.push(`in ${lease.backend.endpoint.port}`);
  }
}

/** Arrives as requests do: the gate may have changed by time alone. */
function enterAt(admission: Admission, waitQueue: WaitQueue, guest: Guest): BackendLease | undefined {
  guest.line = waitQueue;
  admission.recheck(waitQueue);
  return admission.arrive(waitQueue, guest);
}

/** An admission whose published state and time a test moves. */
function site(
  sketch: SlotSketch | undefined,
  holdMs = 10_000,
  operator: { liveness: OperatorLiveness; isSettled: boolean } = { liveness: "absent", isSettled: true },
) {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  let elapsedMs = 0;
  let current = sketch;
  const index = () =>
    buildIndex(
      {
        slots: () => (current === undefined ? [] : [publishedSlot("coder", current, 1)]),
        registry: () => ({ schema: 1, models: [], upstreams: [], resources: [] }),
      },
      new Map(),
    );
  const admission = new Admission({
    index,
    operator: () => operator.liveness,
    isSettled: () => operator.isSettled,
    holdMs,
    now: () => elapsedMs,
  });
  const line = admission.waitQueueOf("coder", "main");
  return {
    admission,
    line,
    /** What the guest is told at once, or waits. */
    enter: (guest: Guest): void => {
      try {
        const lease = enterAt(admission, line, guest);
        if (lease !== undefined) guest.take(lease);
      } catch (error) {
        assert.ok(error instanceof ApiError);
        guest.told.push(error.code);
      }
    },
    finish: (guest: Guest, tookMs: number): void => {
      assert.ok(guest.lease !== undefined);
      admission.finish(line, guest.lease, tookMs);
    },
    /** It could not reach its engine; false: it may not wait for that. */
    isLost: (guest: Guest): boolean => {
      assert.ok(guest.lease !== undefined);
      const isLost = admission.markLost(line, guest.lease);
      admission.finish(line, guest.lease, 0);
      return isLost;
    },
    /** Time passes, second by second as far as timers look. */
    pass: (ms: number): void => {
      for (let left = ms; left > 0; left -= 1000) {
        elapsedMs += Math.min(left, 1000);
        mock.timers.tick(Math.min(left, 1000));
      }
    },
    /** Published without anybody being told. */
    change: (next: SlotSketch | undefined) => void (current = next),
    publish: (next: SlotSketch | undefined): void => {
      current = next;
      admission.refresh("coder");
    },
  };
}

const max = (count: number, queue = 0): NonNullable<SlotSketch["spec"]> => ({ concurrency: { max: count, queue } });
const there: SlotSketch = { port: 8081, spec: max(1, 2) };
const away: SlotSketch = { state: "starting", spec: max(1, 2) };

const choosing = (refs: readonly string[], sketch: SlotSketch = {}): SlotSketch => ({
  ...sketch,
  status: {
    model: { ref: "small", origin: "spec" },
    onRequest: { usual: "small", refs: [...refs], chosen: "small", since: "2026-01-01T00:00:00.000Z", failed: [] },
  },
});

describe("Admission", () => {
  it("drops the queue of a model that requests may no longer choose, once the queue is empty", () => {
    const { admission, publish } = site(choosing(["small", "large"], there));
    const queue = admission.waitQueueOf("coder", "main", "large");
    admission.waitQueueOf("coder", "main", "small");
    const guest = new Guest();
    assert.equal(enterAt(admission, queue, guest), undefined);
    publish(choosing(["small"], there));
    assert.deepEqual(guest.told, ["slot.not_ready"]);
    const refs = admission.queuesByRef("coder").map(({ ref }) => ref);
    assert.deepEqual(refs, ["small"]);
    publish(choosing(["small", "large"], there));
    assert.equal(admission.queuesByRef("coder").length, 1);
    // A request of before may still know the old queue, which nothing wakes.
    assert.throws(() => enterAt(admission, queue, new Guest()), { code: "slot.not_ready" });
    assert.notEqual(admission.waitQueueOf("coder", "main", "large"), queue);
    publish({ ...there, status: { model: { ref: "small", origin: "spec" } } });
    assert.deepEqual(admission.queuesByRef("coder"), []);
  });

  it("keeps the queue of such a model until its last request has ended", () => {
    const { admission, publish } = site(choosing(["small", "large"], there));
    const queue = admission.waitQueueOf("coder", "main", "small");
    const lease = enterAt(admission, queue, new Guest());
    assert.ok(lease !== undefined);
    publish(choosing(["large"], there));
    assert.equal(admission.queuesByRef("coder").length, 1);
    admission.finish(queue, lease, 10);
    publish(choosing(["large"], there));
    assert.deepEqual(admission.queuesByRef("coder"), []);
  });

  it("holds a caller for its time, also when the wall clock is set ahead or back", (test) => {
    for (const setMs of [0, 3_600_000, -3_600_000]) {
      const { enter, pass } = site(away);
      const guest = new Guest();
      enter(guest);
      pass(1000);
      const wallMs = Date.now();
      const clock = test.mock.method(Date, "now", () => wallMs + setMs);
      pass(8999);
      assert.deepEqual(guest.told, []);
      pass(1);
      assert.deepEqual(guest.told, ["slot.not_ready"]);
      clock.mock.restore();
    }
  });

  it("refuses when the time to hold is over where the request waits at a loaded slot, for any time, and the slot is unloaded", () => {
    const endless = { ...max(1, 2), timeoutSeconds: { firstByte: 0 } };
    const { enter, publish, pass } = site({ port: 8081, spec: endless });
    const [inside, waiting] = [new Guest("a"), new Guest("b")];
    enter(inside);
    enter(waiting);
    pass(3_600_000);
    publish({ state: "starting", spec: endless });
    pass(9000);
    assert.deepEqual(waiting.told, []);
    pass(1000);
    assert.deepEqual(waiting.told, ["slot.not_ready"]);
  });

  it("refuses then too while an engine is lost and tried again, and those who wait behind", () => {
    const unsettled = { liveness: "live", isSettled: false } as const;
    const { enter, isLost, pass } = site({ ...there, spec: max(1, 2) }, 7000, unsettled);
    const [trying, behind] = [new Guest("a"), new Guest("b")];
    enter(trying);
    enter(behind);
    let [tries, waitedMs] = [0, 0];
    while (trying.told.at(-1) !== "slot.not_ready" || behind.told.at(-1) !== "slot.not_ready") {
      for (const guest of [trying, behind]) {
        if (guest.told.splice(0)[0] !== "in 8081") continue;
        tries += 1;
        assert.ok(isLost(guest));
        enter(guest);
      }
      assert.ok((waitedMs += 100) <= 7100, "they still wait");
      pass(100);
    }
    assert.ok(tries > 1, "the engine was tried again");
  });

  it("holds nobody at a lost engine where no operator would publish another one", () => {
    for (const [liveness, isSettled, isHeld] of [
      ["live", false, true],
      ["live", true, false],
      ["stale", false, false],
      ["absent", false, false],
    ] as const) {
      const { admission, line, enter, isLost } = site(there, 7000, { liveness, isSettled });
      const guest = new Guest();
      enter(guest);
      assert.equal(isLost(guest), isHeld, `${liveness} ${isSettled}`);
      assert.equal(admission.waitReport(line).state, isHeld ? "offline" : "queued");
    }
  });

  it("knows nothing of the lost engine of a slot that was deleted and made again", () => {
    const { enter, isLost, publish } = site(there, 7000, { liveness: "live", isSettled: false });
    const [before, after] = [new Guest(), new Guest()];
    enter(before);
    assert.ok(isLost(before));
    publish(undefined);
    publish(there);
    enter(after);
    assert.deepEqual(after.told, ["in 8081"]);
  });

  it("sees a change without an event within a second", () => {
    const { enter, change, pass } = site(away);
    const guest = new Guest();
    enter(guest);
    change(there);
    pass(1000);
    assert.deepEqual(guest.told, ["in 8081"]);
  });

  it("checks again at each arrival, since time alone may have changed the answer", () => {
    const nextRetryAt = new Date(1_000_000 + 15_000).toISOString();
    const { enter, publish, pass } = site({ state: "error", status: { failures: 1, nextRetryAt }, spec: max(1, 2) });
    const [early, late] = [new Guest(), new Guest()];
    enter(early);
    assert.deepEqual(early.told, ["slot.failed"]);
    pass(6000);
    enter(late);
    assert.deepEqual(late.told, []);
    publish(there);
    assert.deepEqual(late.told, ["in 8081"]);
  });

  it("refuses all waiting requests when the slot is removed or fails for good", () => {
    for (const [next, code] of [
      [undefined, "model.not_found"],
      [{ state: "error" } as const, "slot.failed"],
      [{ spec: { enabled: false } }, "slot.disabled"],
    ] as const) {
      const { enter, publish } = site(away);
      const guests = [new Guest("a"), new Guest("b")];
      guests.forEach(enter);
      publish(next);
      for (const { told } of guests) assert.deepEqual(told, [code]);
    }
  });

  it("gives a refused request a retry time, from the durations of others", () => {
    const { admission, line, enter, finish } = site(there);
    const first = new Guest();
    enter(first);
    finish(first, 30_000);
    for (const client of ["a", "b", "c"]) enter(new Guest(client));
    const { code, headers } = thrownBy(() => enterAt(admission, line, new Guest("d")), ApiError);
    assert.deepEqual([code, headers], ["slot.overloaded", { "retry-after": "90" }]);
  });
});

it("BufferBudget accepts bytes that fit, refuses more, and counts bytes that are added without asking", () => {
  const budget = new BufferBudget(100);
  budget.take(60);
  const { code, headers } = thrownBy(() => budget.take(41), ApiError);
  assert.deepEqual([code, headers], ["system.overloaded", { "retry-after": "5" }]);
  budget.take(40);
  assert.equal(budget.add(1), false);
  budget.give(101);
  assert.deepEqual([budget.usedBytes, budget.add(100)], [0, true]);
});
