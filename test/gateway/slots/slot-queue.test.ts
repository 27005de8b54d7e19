import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  SlotQueue,
  type QueuedRequest,
  type GateState,
  type QueueLimits,
} from "../../../src/gateway/slots/slot-queue.ts";
import { fc } from "../../support/fast-check.ts";

interface Named extends QueuedRequest {
  readonly name: string;
}

const limits: QueueLimits = { max: 1, queue: 4, holdMs: 1000, queueMs: Infinity };

/** Everything that callers have been told since the last call of `recorded`. */
let told: string[] = [];

/** A new queue. The clients of callers are the first letters of their names. */
function recorded(over: Partial<QueueLimits> = {}) {
  told = [];
  const own = { ...limits, ...over };
  const queue = new SlotQueue(own);
  const change = (gate: GateState, now = 0): void => queue.change(gate, own, now);
  const arrive = (...callers: readonly (string | Named)[]): string[] =>
    callers.map((each) => queue.arrive(typeof each === "string" ? caller(each) : each, 0));
  return { queue, change, arrive, open: (now?: number) => change({ kind: "open" }, now) };
}

function caller(name: string, hasBegun = false, group?: object): Named {
  return {
    name,
    from: { client: name.slice(0, 1), hasBegun },
    ...(group === undefined ? {} : { group }),
    onAdmitted: () => void told.push(`${name} in`),
    onRefused: (refusal) => void told.push(`${name} ${refusal}`),
  };
}

describe("SlotQueue", () => {
  it("gives clients turns, so that a client with many requests starves no other, and tells positions in turns", () => {
    const { queue, open, arrive } = recorded({ queue: 10 });
    open();
    const waiting = ["a2", "a3", "a4", "b1", "c1"].map((name) => caller(name));
    arrive("a1", ...waiting);
    const positions = [...waiting, caller("stranger")].map((each) => queue.position(each));
    assert.deepEqual(positions, [1, 4, 5, 2, 3, 0]);
    for (let index = 0; index < 5; index += 1) queue.finish();
    assert.deepEqual(told, ["a2 in", "b1 in", "c1 in", "a3 in", "a4 in"]);
  });

  it("refuses callers beyond the queue; while the gate is closed max more may wait", () => {
    const { queue, open, arrive } = recorded({ max: 2, queue: 1 });
    assert.deepEqual(arrive("a", "b", "c", "d"), ["waiting", "waiting", "waiting", "full"]);
    open();
    assert.deepEqual([queue.inside, queue.waiting], [2, 1]);
    assert.deepEqual(arrive("e"), ["full"]);
  });

  it("makes room in a full queue by refusing the newest request of the client with the most waiting", () => {
    const { open, arrive } = recorded({ queue: 3 });
    open();
    assert.deepEqual(arrive("a0", "a1", "a2", "a3", "a4", "b1").slice(-2), ["full", "waiting"]);
    assert.deepEqual(told, ["a3 full"]);
    // Now a has two and b one: taking another from a would only turn the table.
    assert.deepEqual(arrive("b2"), ["full"]);
  });

  it("never displaces a request whose stream has begun", () => {
    for (const [first, outcome, refused] of [
      [false, "waiting", ["a1 full"]],
      [true, "full", []],
    ] as const) {
      const { open, arrive } = recorded({ queue: 2 });
      open();
      assert.equal(arrive("a0", caller("a1", first), caller("a2", true), "b").at(-1), outcome);
      assert.deepEqual(told, refused);
    }
  });

  it("refuses held callers at their own deadlines, and returns the next deadline", () => {
    const { queue } = recorded();
    queue.arrive(caller("a"), 100);
    queue.arrive(caller("b"), 400);
    assert.equal(queue.expire(1099), 1100);
    assert.deepEqual(told, []);
    assert.equal(queue.expire(1100), 1400);
    assert.deepEqual(told, ["a late"]);
    assert.equal(queue.expire(1400), Infinity);
    assert.deepEqual(told, ["a late", "b late"]);
    assert.deepEqual(recorded({ holdMs: 0 }).arrive("a"), ["late"], "with a hold time of zero");
  });

  it("restarts the deadlines when a slot with a queue is unloaded", () => {
    const { queue, open, change, arrive } = recorded();
    open();
    arrive("a", "b");
    change({ kind: "shut" }, 60_000);
    assert.equal(queue.expire(60_001), 61_000);
    assert.deepEqual(told, []);
  });

  it("refuses callers whose deadline is before the next attempt, and keeps the others", () => {
    const { queue, change } = recorded();
    queue.arrive(caller("a"), 0);
    queue.arrive(caller("b"), 800);
    change({ kind: "shut", reopensAt: 1500 }, 900);
    assert.deepEqual(told, ["a late"]);
    assert.equal(queue.arrive(caller("c"), 400), "late");
  });

  it("refuses all callers when waiting cannot help any more", () => {
    const { change, arrive } = recorded();
    arrive("a", "b");
    change({ kind: "closed" });
    assert.deepEqual(told, ["a closed", "b closed"]);
    assert.deepEqual(arrive("c"), ["closed"]);
  });
});

describe("SlotQueue with callers that share one place", () => {
  const shared = {};
  const of = (name: string): Named => caller(name, false, shared);

  it("admits all of them with the first turn of any of them, in a single place", () => {
    const { queue, open, arrive } = recorded({ queue: 10 });
    const [first, second] = [of("a4"), of("b")];
    arrive("a1", "a2", "a3", first);
    assert.equal(queue.position(first), 4);
    arrive(second);
    assert.deepEqual([queue.waiting, queue.position(first), queue.position(second)], [4, 2, 2]);
    open();
    queue.finish();
    assert.deepEqual([told, queue.inside, queue.waiting], [["a1 in", "b in"], 1, 2]);
    assert.deepEqual([queue.leave(first), queue.position(first)], [false, 0]);
    queue.finish();
    queue.finish();
    assert.deepEqual(told.slice(2), ["a2 in", "a3 in"]);
  });

  it("refuses each at its own deadline, and keeps the place for those that stay", () => {
    const { queue, open } = recorded();
    queue.arrive(of("a"), 0);
    queue.arrive(of("b"), 600);
    assert.equal(queue.expire(1000), 1600);
    assert.deepEqual([told, queue.waiting], [["a late"], 1]);
    open(1100);
    assert.deepEqual([told, queue.waiting, queue.inside], [["a late", "b in"], 0, 1]);
  });

  it("accepts more sharing callers into a full queue, and refuses none of them to make room", () => {
    const { queue, open, arrive } = recorded({ queue: 2 });
    open();
    const outcomes = arrive("first", of("s1"), of("s2"), of("s3"), "a1", "b1", of("s4"));
    assert.deepEqual(outcomes.slice(4), ["waiting", "full", "waiting"]);
    assert.deepEqual([told, queue.waiting], [[], 2]);
    assert.equal(queue.leave(of("s1")), false, "another of that name");
  });

  it("makes room by refusing a caller that no longer shares its place", () => {
    const { queue, open, arrive } = recorded({ queue: 2 });
    open();
    const other = of("b");
    arrive("first", "a1", of("a2"), other);
    queue.leave(other);
    assert.deepEqual(arrive("c"), ["waiting"]);
    assert.deepEqual([told, queue.waiting], [["a2 full"], 2]);
  });
});

type Event =
  | { do: "arrive"; client: number; hasBegun: boolean; group: number }
  | { do: "leave"; nth: number }
  | { do: "finish" }
  | { do: "gate"; gate: GateState; max: number; queue: number }
  | { do: "wait"; ms: number };

const gate: fc.Arbitrary<GateState> = fc.oneof(
  fc.constantFrom<GateState[]>({ kind: "open" }, { kind: "shut" }, { kind: "closed" }),
  fc.nat(3000).map((reopensAt): GateState => ({ kind: "shut", reopensAt })),
);
// Every other caller is of a group.
const arrival = { do: fc.constant("arrive" as const), client: fc.nat(3), hasBegun: fc.boolean(), group: fc.nat(5) };
const opening = { do: fc.constant("gate" as const), gate, max: fc.integer({ min: 1, max: 3 }), queue: fc.nat(4) };
const event: fc.Arbitrary<Event> = fc.oneof(
  { weight: 6, arbitrary: fc.record(arrival) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("leave" as const), nth: fc.nat(20) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("finish" as const) }) },
  { weight: 2, arbitrary: fc.record(opening) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.nat(600) }) },
);

describe("SlotQueue under any sequence of events", () => {
  it("answers every caller exactly once, and keeps its bounds", () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 120, size: "max" }), (events) => {
        const fate = new Map<Named, "waiting" | "inside" | "over">();
        const groups = [{}, {}, {}];
        let own: QueueLimits = { max: 1, queue: 2, holdMs: 1000, queueMs: 5000 };
        let now = 0;
        const settle = (who: Named, from: string, to: "inside" | "over"): void => {
          assert.equal(fate.get(who), from, `${who.name} was ${String(fate.get(who))}, not ${from}`);
          fate.set(who, to);
        };
        const queue = new SlotQueue(own);
        const those = (state: string): Named[] => [...fate].filter(([, is]) => is === state).map(([who]) => who);
        for (const step of events) {
          switch (step.do) {
            case "arrive": {
              const who: Named = {
                ...caller(`${step.client} ${fate.size}`, step.hasBegun, groups[step.group]),
                onAdmitted() {
                  settle(who, "waiting", "inside");
                  // Its group is admitted as one: the other members leave the queue.
                  for (const other of those("waiting"))
                    if (other.group !== undefined && other.group === who.group) settle(other, "waiting", "over");
                },
                onRefused: () => settle(who, "waiting", "over"),
              };
              // Displacing happens within: the unresolvedRequest is not known yet.
              const outcome = queue.arrive(who, now);
              fate.set(who, outcome === "admitted" ? "inside" : outcome === "waiting" ? "waiting" : "over");
              break;
            }
            case "leave": {
              const waiting = those("waiting");
              const who = waiting[step.nth % Math.max(1, waiting.length)];
              if (who === undefined) break;
              assert.equal(queue.leave(who), true);
              fate.set(who, "over");
              break;
            }
            case "finish": {
              const [who] = those("inside");
              if (who === undefined) break;
              fate.set(who, "over");
              queue.finish();
              break;
            }
            case "gate":
              own = { ...own, max: step.max, queue: step.queue };
              queue.change(step.gate, own, now);
              break;
            case "wait":
              now += step.ms;
              assert.ok(queue.expire(now) > now);
              break;
            default:
              step satisfies never;
          }
          const waiting = those("waiting");
          const places = new Set(waiting.map((who) => who.group ?? who));
          assert.deepEqual([queue.waiting, queue.callers], [places.size, waiting.length], "a group takes one place");
          assert.equal(queue.inside, those("inside").length);
          if (queue.gate === "open")
            assert.ok(queue.waiting === 0 || queue.inside >= own.max, "nobody waits beside room");
          if (queue.gate === "closed") assert.equal(queue.waiting, 0);
          const positions = waiting.map((who) => queue.position(who));
          if (places.size < waiting.length) {
            assert.ok(positions.every((position) => position >= 1 && position <= waiting.length));
            continue;
          }
          assert.deepEqual(
            positions.toSorted((a, b) => a - b),
            positions.map((_, index) => index + 1),
          );
        }
        now += 10_000;
        queue.expire(now);
        assert.deepEqual(those("waiting"), [], "every wait ends");
      }),
    );
  });
});
