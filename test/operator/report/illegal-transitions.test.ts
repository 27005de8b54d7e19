import assert from "node:assert/strict";
import { describe, it } from "node:test";
import pino from "pino";
import { canMove, slotStates, type SlotState } from "../../../src/api/states.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { defaultBackoff } from "../../../src/operator/plan/backoff.ts";
import type { Decision } from "../../../src/operator/plan/decision.ts";
import { IllegalTransitions, type IllegalTransition } from "../../../src/operator/report/illegal-transitions.ts";
import type { Outcome } from "../../../src/operator/report/outcome.ts";
import { publish } from "../../../src/operator/report/publish.ts";
import { PublishedWriter } from "../../../src/operator/report/written.ts";
import { PublisherDouble } from "../../doubles/state.ts";
import { input, observed, published, warm } from "../fixture.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import type { SlotSpecInput } from "../../../src/api/slot.ts";
import { later } from "../fixture.ts";
import { custom, Site } from "../site.ts";

/** What an operator with a fault could have left behind: another state than that of the engine. */
function misstated(slot: PublishedSlot, state: SlotState): PublishedSlot {
  const { readySince: _ready, ...status } = slot.status;
  const counters = { ...status.counters, transitions: {} };
  return { ...slot, status: { ...status, state, transitions: [], counters } };
}

async function walk(from: SlotState): Promise<readonly string[]> {
  await using site = new Site();
  await site.start();
  site.source.save("a", custom());
  await site.advance(5);
  await site.end();
  site.publisher.slots.set("a", misstated(site.slot("a"), from));
  await site.start();
  await site.advance(30);
  assert.equal(site.state("a"), "ready", "the operator goes on");
  assert.equal(site.slot("a").status.lastError, undefined, "the engine has not failed");
  return site.states("a");
}

describe("moves that the table of states forbids", () => {
  for (const from of slotStates) {
    it(`are not decided where an operator finds an engine that is ready, and ${from} published`, async () => {
      const states = await walk(from);
      for (const [index, to] of states.entries()) {
        const before = slotStates.find((state) => state === (states[index - 1] ?? from));
        const after = slotStates.find((state) => state === to);
        assert.ok(
          before !== undefined && after !== undefined && canMove(before, after),
          `${from}: ${states.join(", ")}`,
        );
      }
      if (from === "pulling") assert.deepEqual(states, ["starting", "ready"]);
    });
  }

  for (const isPaused of [false, true]) {
    const who = isPaused ? "a paused operator" : "an operator";
    it(`are not decided where ${who} finds that the engine of a slot has vanished, which was disabled meanwhile`, async () => {
      await using site = new Site();
      site.source.save("a", custom());
      await site.start();
      await site.advance(5);
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
  const onDemand: SlotSpecInput = { model: { default: "tiny" }, load: "onDemand", idleSeconds: 10 };
  const without: Readonly<Record<string, Partial<Omit<SlotInput, "spec">> & { spec?: SlotSpecInput }>> = {
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
    const outcome: Outcome = {
      observed: given.observed,
      health: given.health,
      protocols: [],
      started: [],
      capabilities: [],
      served: undefined,
      stopping: [],
      draining: [],
      handledRequests: {},
    };
    const ready: Decision = {
      state: "ready",
      conditionSet: "loaded",
      reason: "Loaded",
      message: "tiny is loaded",
      steps: [],
    };
    const after = await publish(dependencies, given, ready, outcome, {
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
