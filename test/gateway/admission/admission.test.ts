import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { Admission } from "../../../src/gateway/admission/admission.ts";
import type { Waiter } from "../../../src/gateway/admission/wait-queue.ts";
import type { BackendLease } from "../../../src/gateway/admission/backend-set.ts";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import { buildIndex } from "../../../src/gateway/routing/index.ts";
import type { OperatorLiveness } from "../../../src/store/store.ts";
import { publishedSlot, type SlotSketch } from "../../support/gateway.ts";
import { fc } from "../../support/fast-check.ts";

/** Somebody who wants in, and everything it has been told. */
class Guest implements Waiter {
  readonly client: string;
  readonly hasBegun = false;
  readonly told: string[] = [];
  lease: BackendLease | undefined;

  constructor(client = "c") {
    this.client = client;
  }

  onAdmitted(lease: BackendLease): void {
    this.lease = lease;
    this.told.push(`in ${lease.backend.endpoint.port}`);
  }

  onRefused({ code }: ApiError): void {
    this.told.push(code);
  }
}

/** An admission whose published state and time a test moves. */
function site(
  sketch: SlotSketch | undefined,
  holdMs = 10_000,
  operator: { liveness: OperatorLiveness; isSettled: boolean } = { liveness: "absent", isSettled: true },
) {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_000_000 });
  let current = sketch;
  const index = () =>
    buildIndex(
      {
        slots: () => (current === undefined ? [] : [publishedSlot("coder", current, 1)]),
        registry: () => ({ schema: 1, models: [], upstreams: [] }),
      },
      new Map(),
    );
  const admission = new Admission({
    index,
    operator: () => operator.liveness,
    isSettled: () => operator.isSettled,
    holdMs,
    now: () => Date.now(),
  });
  const line = admission.waitQueueOf("coder", "main");
  return {
    admission,
    line,
    /** What the guest is told at once, or waits. */
    enter: (guest: Guest): void => {
      try {
        const lease = admission.enter(line, guest);
        if (lease !== undefined) guest.onAdmitted(lease);
      } catch (error) {
        assert.ok(error instanceof ApiError);
        guest.onRefused(error);
      }
    },
    finish: (guest: Guest, tookMs: number): void => {
      assert.ok(guest.lease !== undefined);
      admission.finish(line, guest.lease, tookMs);
    },
    /** It could not reach its engine; false: it may not wait for that. */
    isLost: (guest: Guest): boolean => {
      assert.ok(guest.lease !== undefined);
      const isLost = admission.lost(line, guest.lease);
      admission.finish(line, guest.lease, 0);
      return isLost;
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
    assert.equal(admission.enter(queue, guest), undefined);
    publish(choosing(["small"], there));
    assert.deepEqual(guest.told, ["slot.not_ready"]);
    assert.deepEqual(
      admission.queuesByRef("coder").map(({ ref }) => ref),
      ["small"],
    );
    publish(choosing(["small", "large"], there));
    assert.equal(admission.queuesByRef("coder").length, 1);
    // A request of before may still know the old queue, which nothing wakes.
    assert.throws(() => admission.enter(queue, new Guest()), { code: "slot.not_ready" });
    assert.notEqual(admission.waitQueueOf("coder", "main", "large"), queue);
    publish({ ...there, status: { model: { ref: "small", origin: "spec" } } });
    assert.deepEqual(admission.queuesByRef("coder"), []);
  });

  it("keeps the queue of such a model until its last request has ended", () => {
    const { admission, publish } = site(choosing(["small", "large"], there));
    const queue = admission.waitQueueOf("coder", "main", "small");
    const lease = admission.enter(queue, new Guest());
    assert.ok(lease !== undefined);
    publish(choosing(["large"], there));
    assert.equal(admission.queuesByRef("coder").length, 1);
    admission.finish(queue, lease, 10);
    publish(choosing(["large"], there));
    assert.deepEqual(admission.queuesByRef("coder"), []);
  });

  for (const [way, setMs] of [
    ["ahead", 3_600_000],
    ["back", -3_600_000],
  ] as const) {
    it(`holds a caller for its time when the wall clock is set ${way}`, (test) => {
      test.mock.timers.enable({ apis: ["setTimeout"] });
      let elapsedMs = 0;
      const pass = (ms: number): void => {
        elapsedMs += ms;
        test.mock.timers.tick(ms);
      };
      const slots = () => [publishedSlot("coder", away, 1)];
      const index = () => buildIndex({ slots, registry: () => ({ schema: 1, models: [], upstreams: [] }) }, new Map());
      const now = (): number => elapsedMs;
      const admission = new Admission({ index, operator: () => "absent", holdMs: 10_000, now });
      const guest = new Guest();
      admission.enter(admission.waitQueueOf("coder", "main"), guest);
      pass(1000);
      const wallMs = Date.now();
      test.mock.method(Date, "now", () => wallMs + setMs);
      for (let second = 2; second < 10; second += 1) pass(1000);
      assert.deepEqual(guest.told, []);
      pass(1000);
      assert.deepEqual(guest.told, ["slot.not_ready"]);
      admission.close(new ApiError("system.overloaded"));
    });
  }

  it("admits at once where there is room, and then waiting requests as others finish", () => {
    const { enter, finish, admission, line } = site(there);
    const [a, b] = [new Guest("a"), new Guest("b")];
    enter(a);
    enter(b);
    assert.deepEqual([a.told, b.told], [["in 8081"], []]);
    assert.deepEqual(admission.counts("coder"), { held: 0, queued: 1 });
    assert.deepEqual(admission.place(line, b), {
      at: "slot",
      name: "coder",
      state: "queued",
      position: 1,
      progress: undefined,
    });
    finish(a, 100);
    assert.deepEqual(b.told, ["in 8081"]);
  });

  it("holds until the slot is published ready, at the port it then has", () => {
    const { enter, admission, publish } = site(away);
    const guest = new Guest();
    enter(guest);
    assert.deepEqual(admission.counts("coder"), { held: 1, queued: 0 });
    publish({ ...away, state: "warming" });
    assert.deepEqual(guest.told, []);
    publish({ ...there, port: 9000 });
    assert.deepEqual(guest.told, ["in 9000"]);
  });

  it("refuses when the time to hold is over, at that time", () => {
    const { enter } = site(away);
    const guest = new Guest();
    enter(guest);
    mock.timers.tick(9999);
    assert.deepEqual(guest.told, []);
    mock.timers.tick(1);
    assert.deepEqual(guest.told, ["slot.not_ready"]);
  });

  it("refuses at that time too where the request waits at a loaded slot, for any time, and the slot is unloaded", () => {
    const endless = { ...max(1, 2), timeoutSeconds: { firstByte: 0 } };
    const { enter, publish } = site({ port: 8081, spec: endless });
    const [inside, waiting] = [new Guest("a"), new Guest("b")];
    enter(inside);
    enter(waiting);
    mock.timers.tick(3_600_000);
    publish({ state: "starting", spec: endless });
    mock.timers.tick(9000);
    assert.deepEqual(waiting.told, []);
    mock.timers.tick(1000);
    assert.deepEqual(waiting.told, ["slot.not_ready"]);
  });

  it("refuses at that time too while an engine is lost and tried again, and those who wait behind", () => {
    const unsettled = { liveness: "live", isSettled: false } as const;
    const { enter, isLost } = site({ ...there, spec: max(1, 2) }, 7000, unsettled);
    const [trying, behind] = [new Guest("a"), new Guest("b")];
    enter(trying);
    enter(behind);
    const start = Date.now();
    let tries = 0;
    while (trying.told.at(-1) !== "slot.not_ready" || behind.told.at(-1) !== "slot.not_ready") {
      for (const guest of [trying, behind]) {
        if (guest.told.splice(0)[0] !== "in 8081") continue;
        tries += 1;
        assert.ok(isLost(guest));
        enter(guest);
      }
      assert.ok(Date.now() - start <= 7000, "they still wait");
      mock.timers.tick(100);
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
      const { enter, isLost } = site(there, 7000, { liveness, isSettled });
      const guest = new Guest();
      enter(guest);
      assert.equal(isLost(guest), isHeld, `${liveness} ${isSettled}`);
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
    const { enter, change } = site(away);
    const guest = new Guest();
    enter(guest);
    change(there);
    mock.timers.tick(1000);
    assert.deepEqual(guest.told, ["in 8081"]);
  });

  it("checks again at each arrival, since time alone may have changed the answer", () => {
    const nextRetryAt = new Date(1_000_000 + 15_000).toISOString();
    const { enter, publish } = site({ state: "error", status: { failures: 1, nextRetryAt }, spec: max(1, 2) });
    const [early, late] = [new Guest(), new Guest()];
    enter(early);
    assert.deepEqual(early.told, ["slot.failed"]);
    mock.timers.tick(6000);
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
    assert.throws(
      () => admission.enter(line, new Guest("d")),
      (error) => {
        assert.ok(error instanceof ApiError);
        assert.deepEqual([error.code, error.headers], ["slot.overloaded", { "retry-after": "90" }]);
        return true;
      },
    );
  });

  it("takes any number where the manifest says 0", () => {
    const { enter } = site({ port: 1, spec: max(0) });
    const guests = Array.from({ length: 500 }, () => new Guest());
    guests.forEach(enter);
    assert.ok(guests.every(({ told }) => told[0] === "in 1"));
  });

  it("keeps no timer without waiting requests", () => {
    const { enter, line } = site(away);
    const guest = new Guest();
    enter(guest);
    line.queue.leave(guest);
    mock.timers.tick(1000);
    const scheduled = mock.method(globalThis, "setTimeout");
    mock.timers.tick(60_000);
    assert.equal(scheduled.mock.callCount(), 0);
    scheduled.mock.restore();
  });

  type Step =
    | { do: "enter"; client: number }
    | { do: "leave" | "finish" | "publish" | "change"; nth: number }
    | { do: "wait"; ms: number };
  const soon = new Date(1_000_000 + 5000).toISOString();
  const worlds: readonly (SlotSketch | undefined)[] = [
    there,
    { ...there, port: 9000, spec: max(2, 1) },
    away,
    { ...away, state: "unloading" },
    { state: "error", status: { failures: 1, nextRetryAt: soon } },
    { state: "error" },
    { spec: { enabled: false } },
    undefined,
  ];
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constant("enter" as const), client: fc.nat(2) }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constantFrom("leave" as const, "finish" as const), nth: fc.nat(9) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("publish" as const, "change" as const), nth: fc.nat(7) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.nat(3000) }) },
  );

  it("answers every request exactly once, for any published states and any passing of time", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: "max" }), fc.nat(7), (steps, first) => {
        const { admission, line, enter, finish: over, publish, change } = site(worlds[first], 4000);
        const guests: Guest[] = [];
        const left = new Set<Guest>();
        const finished = new Set<Guest>();
        const waiting = (): Guest[] => guests.filter((guest) => guest.told.length === 0 && !left.has(guest));
        const inside = (): Guest[] =>
          guests.filter((guest) => guest.told[0]?.startsWith("in ") === true && !finished.has(guest));
        const finish = (guest: Guest | undefined): void => {
          if (guest === undefined) return;
          finished.add(guest);
          over(guest, 10);
        };
        for (const each of steps) {
          if (each.do === "enter") {
            const guest = new Guest(`c${each.client}`);
            guests.push(guest);
            enter(guest);
          } else if (each.do === "leave") {
            const guest = waiting()[each.nth];
            if (guest !== undefined && line.queue.leave(guest)) left.add(guest);
          } else if (each.do === "finish") finish(inside()[each.nth]);
          else if (each.do === "publish") publish(worlds[each.nth]);
          else if (each.do === "change") change(worlds[each.nth]);
          else if ("ms" in each) mock.timers.tick(each.ms);
          assert.ok(guests.every(({ told }) => told.length <= 1));
          assert.equal(line.queue.waiting, waiting().length);
          const taken = [...line.backends.all()].reduce((sum, { inFlight }) => sum + inFlight, 0);
          assert.equal(taken, inside().length);
          assert.equal(
            line.queue.inside,
            line.backends.inFlight,
            "a place at an engine that is ready is one in the queue",
          );
        }
        publish(there);
        for (let turn = 0; turn < 200; turn += 1) finish(inside()[0]);
        assert.ok(
          guests.every((guest) => left.has(guest) || guest.told.length === 1),
          "everybody was answered",
        );
        admission.close(new ApiError("system.overloaded"));
      }),
      { numRuns: 300 },
    );
    mock.timers.reset();
  });
});

it("BufferBudget accepts bytes that fit, refuses more, and counts bytes that are added without asking", () => {
  const budget = new BufferBudget(100);
  budget.take(60);
  assert.throws(
    () => budget.take(41),
    (error) => error instanceof ApiError && error.code === "system.overloaded" && error.headers["retry-after"] === "5",
  );
  budget.take(40);
  assert.equal(budget.add(1), false);
  budget.give(101);
  assert.deepEqual([budget.usedBytes, budget.add(100)], [0, true]);
});
