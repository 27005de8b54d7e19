import assert from "node:assert/strict";
import { it } from "node:test";
import { announcement, spokenStates } from "../../../web/dashboard/announce.ts";

const slots = (states: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  spokenStates(Object.entries(states).map(([name, state]) => ({ name, state })));

it("a change of state is read out, and what comes and goes with each request is not", () => {
  assert.equal(announcement(slots({ coder: "ready" }), slots({ coder: "serving" })), "");
  assert.equal(announcement(slots({ coder: "serving" }), slots({ coder: "idle" })), "");
  assert.equal(announcement(slots({ coder: "warming" }), slots({ coder: "serving" })), "coder is ready.");
  const both = announcement(slots({ coder: "ready", old: "ready" }), slots({ coder: "error" }));
  assert.equal(both, "coder is error. old is gone.");
});

it("many changes at once are counted", () => {
  const all = (state: string): Record<string, string> => ({ a: state, b: state, c: state, d: state });
  assert.equal(announcement(slots(all("starting")), slots(all("ready"))), "4 slots have changed.");
});
