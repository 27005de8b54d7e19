import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { BufferBudget } from "../../../src/gateway/slots/budget.ts";
import { NotAStream } from "../../../src/gateway/relay/answer.ts";
import { SharedAnswer } from "../../../src/gateway/relay/shared-answer.ts";
import { RecorderSink } from "./recorder.ts";
import { fc } from "../../support/fast-check.ts";

const stream = { "content-type": "text/event-stream" };
const failure = new ApiError("dispatch.upstream_failed");

function shared(rooms: readonly number[], { behind = 100, budget = 1e9 } = {}) {
  const bytes = new BufferBudget(budget);
  const told = { deserted: 0 };
  const onDeserted = (): void => void (told.deserted += 1);
  const answer = new SharedAnswer({ budget: bytes, behindLimitBytes: behind, tally: { readers: 0 }, onDeserted });
  const sinks = rooms.map((room) => new RecorderSink(room));
  for (const sink of sinks) answer.join(sink);
  return { answer, sinks, budget: bytes, told };
}

const at = (sinks: readonly RecorderSink[], nth: number): RecorderSink => {
  const sink = sinks[nth];
  assert.ok(sink !== undefined);
  return sink;
};

describe("SharedAnswer", () => {
  it("can be joined until it begins, and not after it failed", () => {
    const begun = shared([1]).answer;
    assert.equal(begun.isJoinable, true);
    begun.begin(200, stream);
    assert.equal(begun.isJoinable, false);
    const failed = shared([1]);
    failed.answer.refuse(failure);
    assert.equal(failed.answer.isJoinable, false);
    assert.deepEqual(at(failed.sinks, 0).calls, ["refuse dispatch.upstream_failed"]);
  });

  it("refuses an answer that is no stream when any reader was promised a stream", () => {
    const { answer, sinks } = shared([Infinity, Infinity]);
    at(sinks, 1).isHeld = true;
    assert.equal(answer.hasBegun, true);
    assert.throws(() => answer.begin(200, { "content-type": "application/json" }), NotAStream);
    assert.deepEqual(at(sinks, 0).calls, []);
  });

  it("cuts a reader that is too far behind, or that the budget has no room for, alone and with the reason", () => {
    for (const [limits, more] of [
      [{ behind: 10 }, 10],
      [{ behind: 1000, budget: 20 }, 16],
    ] as const) {
      const { answer, sinks, budget } = shared([1, Infinity], limits);
      answer.begin(200, stream);
      answer.write(Buffer.alloc(4));
      answer.write(Buffer.alloc(more));
      assert.equal(at(sinks, 0).isOver, false, "that is within the limit");
      answer.write(Buffer.alloc(5));
      assert.deepEqual([at(sinks, 0).calls, answer.readers], [["begin", "refuse system.overloaded"], 1]);
      assert.equal(budget.usedBytes, 0);
      at(sinks, 0).drain();
      answer.end(Buffer.from("rest"));
      assert.equal(at(sinks, 1).calls.at(-1), "end");
      assert.match(at(sinks, 1).text, /rest$/);
    }
  });

  type Step = { do: "write"; size: number } | { do: "drain"; nth: number; room: number } | { do: "leave"; nth: number };
  const write = fc.record({ do: fc.constant("write" as const), size: fc.integer({ min: 1, max: 30 }) });
  const room = fc.integer({ min: 1, max: 60 });
  const drain = fc.record({ do: fc.constant("drain" as const), nth: fc.nat(4), room });
  const leave = fc.record({ do: fc.constant("leave" as const), nth: fc.nat(4) });
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 5, arbitrary: write },
    { weight: 5, arbitrary: drain },
    { weight: 1, arbitrary: leave },
  );
  const rooms = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 5 });

  it("at any time: every reader gets all bytes in order, none is behind beyond the limit, no byte is kept without a reader", () => {
    fc.assert(
      fc.property(
        rooms,
        fc.array(step, { maxLength: 80, size: "max" }),
        fc.boolean(),
        fc.nat(400),
        (room, steps, ends, limit) => {
          const behind = 80;
          const { answer, sinks, budget, told } = shared(room, { behind, budget: 100 + limit });
          const left = new Set<RecorderSink>();
          const isReader = (sink: RecorderSink): boolean => !left.has(sink) && !sink.isOver;
          answer.begin(200, stream);
          let sent = "";
          let isPaused = false;
          let isDeserted = false;
          const check = (): void => {
            const readers = sinks.filter(isReader);
            assert.equal(answer.readers, readers.length);
            assert.equal(told.deserted, isDeserted ? 1 : 0);
            const least = Math.min(sent.length, ...readers.map(({ text }) => text.length));
            assert.ok(sent.length - least <= behind, "nobody is further behind than the limit");
            // Chunks are kept whole: at most the one that the slowest has still to get.
            assert.equal(budget.usedBytes, sent.length - least);
            for (const sink of sinks) assert.ok(sent.startsWith(sink.text), "every byte in order");
            if (isPaused)
              assert.ok(
                readers.every(({ isWaiting }) => isWaiting),
                "the engine waits only while all do",
              );
          };
          for (const each of steps) {
            if (each.do === "write") {
              if (answer.readers === 0) continue;
              const text = Array.from({ length: each.size }, (_, index) =>
                String.fromCharCode(97 + ((sent.length + index) % 26)),
              ).join("");
              sent += text;
              // As a relay does: what is on its way comes though the engine was asked to wait.
              const hasRoom = answer.write(Buffer.from(text));
              const isAwaited = sinks.filter(isReader).every(({ isWaiting }) => isWaiting);
              assert.equal(hasRoom, !isAwaited, "the engine waits where all readers do");
              if (!hasRoom && !isPaused) {
                isPaused = true;
                answer.onDrain(() => (isPaused = false));
                assert.equal(isPaused, true);
              }
              if (answer.readers === 0) isDeserted = true;
            } else {
              const sink = sinks[each.nth];
              if (sink === undefined || !isReader(sink)) continue;
              if (each.do === "drain") sink.drain(each.room);
              else {
                left.add(sink);
                answer.leave(sink);
              }
            }
            check();
          }
          if (ends) answer.end();
          else answer.refuse(failure);
          // Whoever reads on gets the rest, and the end.
          for (let turn = 0; turn < 200; turn += 1) for (const sink of sinks) if (isReader(sink)) sink.drain();
          for (const sink of sinks) {
            if (left.has(sink)) continue;
            const last = sink.calls.at(-1);
            if (last === "refuse system.overloaded") continue;
            assert.equal(last, ends ? "end" : "refuse dispatch.upstream_failed");
            assert.equal(sink.text, sent);
          }
          assert.deepEqual([budget.usedBytes, answer.readers], [0, 0]);
        },
      ),
    );
  });
});
