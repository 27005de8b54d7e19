import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canMove, slotStates, type SlotState } from "../../../src/api/states.ts";
import type { PublishedSlot } from "../../../src/api/status.ts";
import { input, later, published } from "../fixture.ts";
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
});
