import assert from "node:assert/strict";
import { describe, it } from "node:test";
import pino from "pino";
import { canMove, slotStates, type SlotState } from "../../../src/api/states.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { defaultBackoff } from "../../../src/operator/plan/backoff.ts";
import { IllegalTransitions, type IllegalTransition } from "../../../src/operator/report/illegal-transitions.ts";
import { publish } from "../../../src/operator/report/publish.ts";
import { PublishedWriter } from "../../../src/operator/report/written.ts";
import { PublisherDouble } from "../../doubles/state.ts";
import { input, later, observed, outcomeOf, published, warm } from "../fixture.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import { custom, Site } from "../site.ts";

/** What an operator with a fault could have left behind: another state than that of the engine. */
function misstated(slot: PublishedSlot, state: SlotState): PublishedSlot {
  const { readySince: _ready, ...status } = slot.status;
  const counters = { ...status.counters, transitions: {} };
  return { ...slot, status: { ...status, state, transitions: [], counters } };
}

describe("moves that the table of states forbids", () => {
  for (const from of slotStates) {
    it(`are not decided where an operator finds an engine that is ready, and ${from} published`, async () => {
      await using site = await new Site().run({ a: custom() });
      await site.end();
      site.publisher.slots.set("a", misstated(site.slot("a"), from));
      await site.start();
      await site.advance(30);
      assert.equal(site.state("a"), "ready", "the operator goes on");
      assert.equal(site.slot("a").status.lastError, undefined, "the engine has not failed");
      const states = site.slot("a").status.transitions.map(({ to }) => to);
      for (const [index, to] of states.entries())
        assert.ok(canMove(states[index - 1] ?? from, to), `${from}: ${states.join(", ")}`);
      if (from === "pulling") assert.deepEqual(states, ["starting", "ready"]);
    });
  }

  for (const isPaused of [false, true]) {
    const who = isPaused ? "a paused operator" : "an operator";
    it(`are not decided where ${who} finds that the engine of a slot has vanished, which was disabled meanwhile`, async () => {
      await using site = await new Site().run({ a: custom() });
      await site.end();
      site.runtime.lose("a");
      site.source.save("a", custom({ enabled: false }));
      await site.start({ isPaused });
      await site.advance(5);
      assert.deepEqual(site.states("a").slice(-3), ["ready", "unloading", "offline"]);
    });
  }

  const group = { name: "gpu", grant: { state: "lent", until: later(3600).toISOString() } } as const;
  const noMemory = { reason: "NoMemory", message: "the GPU has too little free" } as const;
  const onDemand = { model: { default: "tiny" }, load: "onDemand", idleSeconds: 10 } as const;
  const without: Readonly<Record<string, Parameters<typeof input>[0]>> = {
    "disabled slot": { spec: { enabled: false }, workloads: [] },
    "idle slot": { spec: onDemand, workloads: [] },
    "idle slot of a lent group": { spec: onDemand, workloads: [], group },
    "slot of a lent group": { group },
    "slot whose memory is not free yet": {
      group: { name: "gpu", grant: { state: "granted" } },
      workloads: noMemory,
      freedAt: later(99),
    },
  };
  for (const [what, given] of Object.entries(without)) {
    it(`are not decided for a ${what} without an engine, in no state`, () => {
      // The other two are the gateway's.
      for (const from of slotStates.filter((each) => each !== "serving" && each !== "idle")) {
        const { state } = plan(input({ ...given, before: published({ state: from }) }));
        assert.ok(canMove(from, state), `${from} → ${state}`);
      }
    });
  }

  it("are never published: error stands between, which is not counted as a failure of the engine", async () => {
    const publisher = new PublisherDouble();
    const dependencies = {
      publisher,
      published: new Map<string, PublishedSlot>(),
      written: new PublishedWriter(publisher, pino({ level: "silent" })),
      backoff: defaultBackoff,
    };
    const states: string[] = [];
    const moves: IllegalTransition[] = [];
    const given = input({ before: published({ state: "pulling" }), observed: [observed()], health: { main: warm } });
    const loaded = { reason: "Loaded", message: "tiny is loaded", steps: [] };
    const ready = { state: "ready", conditionSet: "loaded", ...loaded } as const;
    const after = await publish(dependencies, given, ready, outcomeOf(given), {
      onPublished: (slot) => void states.push(slot.status.state),
      illegalTransitions: { record: (move) => void moves.push(move) },
    });
    assert.deepEqual(states, ["error", "ready"]);
    assert.deepEqual(moves, [{ slot: "primary", from: "pulling", to: "ready", reason: "Loaded" }]);
    assert.equal(after?.status.lastError, undefined);
  });

  it("are counted each time, and logged once per slot and pair of states", () => {
    const lines: string[] = [];
    const counted: string[] = [];
    const log = pino({ level: "error" }, { write: (line) => void lines.push(line) });
    const moves = new IllegalTransitions(log, ({ slot, to }) => void counted.push(`${slot} ${to}`));
    const move = { slot: "a", from: "pulling", to: "ready", reason: "Loaded" } as const;
    for (const one of [move, move, { ...move, to: "serving" } as const, { ...move, slot: "b" }]) moves.record(one);
    moves.forget("a");
    moves.record(move);
    assert.deepEqual(counted, ["a ready", "a ready", "a serving", "b ready", "a ready"]);
    assert.equal(lines.length, 4);
  });
});
