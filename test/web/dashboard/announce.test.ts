import assert from "node:assert/strict";
import { it } from "node:test";
import type { SlotState } from "../../../src/api/states.ts";
import { announcement, spokenStates } from "../../../web/dashboard/announce.ts";

const slots = (states: Readonly<Record<string, SlotState>>): ReadonlyMap<string, string> => {
  const progress = { bytes_done: 1, bytes_total: 2 };
  const rest = { in_flight: 2, progress, conditions: [] };
  return spokenStates(Object.entries(states).map(([name, state]) => ({ name, state, ...rest })));
};

it("a change of state is read out, and what comes and goes with each request is not", () => {
  assert.equal(announcement(slots({ coder: "ready" }), slots({ coder: "serving" })), "");
  assert.equal(announcement(slots({ coder: "serving" }), slots({ coder: "idle" })), "");
  assert.equal(announcement(slots({ coder: "warming" }), slots({ coder: "serving" })), "coder: Ready.");
  assert.equal(announcement(slots({ coder: "starting" }), slots({ coder: "warming" })), "");
  assert.equal(announcement(slots({ coder: "offline" }), slots({ coder: "warming" })), "coder: Loading.");
  const both = announcement(slots({ coder: "ready", old: "ready" }), slots({ coder: "error" }));
  assert.equal(both, "coder: Failed. old is gone.");
});

it("many changes at once are counted", () => {
  const all = (state: SlotState): Record<string, SlotState> => ({ a: state, b: state, c: state, d: state });
  assert.equal(announcement(slots(all("starting")), slots(all("ready"))), "4 slots have changed.");
});
