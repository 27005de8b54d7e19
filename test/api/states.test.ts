import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { canMove, isAvailable, slotStates, transitions, type SlotState } from "../../src/api/states.ts";

/** The life of a slot as the specification draws it; the table in api/ may say more, never less. */
const specified = {
  offline: ["pulling"],
  pulling: ["starting"],
  starting: ["warming"],
  warming: ["ready"],
  ready: ["serving"],
  serving: ["idle"],
  idle: ["serving", "unloading"],
  unloading: ["offline", "starting"],
  error: ["pulling", "starting", "offline"],
} satisfies Record<SlotState, readonly SlotState[]>;
/** What no slot ever does: skip loading, serve without being ready, or leave without letting go. */
const forbidden = {
  offline: ["serving", "idle"],
  pulling: ["warming", "ready", "serving"],
  starting: ["serving", "idle", "pulling"],
  warming: ["serving", "offline"],
  ready: ["offline", "starting"],
  serving: ["offline", "starting"],
  idle: ["offline", "pulling"],
  unloading: ["ready", "serving"],
  error: ["serving", "idle"],
} satisfies Record<SlotState, readonly SlotState[]>;

describe("states", () => {
  it("move as the specification says, and never as it forbids", () => {
    for (const from of slotStates) {
      for (const to of specified[from]) assert.ok(canMove(from, to), `${from} → ${to}`);
      for (const to of forbidden[from]) assert.ok(!canMove(from, to), `never ${from} → ${to}`);
    }
  });

  it("may all stay as they are, move to error, and be stopped", () => {
    for (const state of slotStates)
      for (const to of [state, "error", "unloading"] as const) assert.ok(canMove(state, to), `${state} → ${to}`);
  });

  it("can be reached from error where the operator decides them: error may stand between any two", () => {
    const decided = slotStates.filter((state) => state !== "serving" && state !== "idle");
    for (const state of decided) assert.ok(canMove("error", state), `error → ${state}`);
  });

  it("are all reached from offline, and all lead back to it", () => {
    const reachable = (from: SlotState): Set<SlotState> => {
      const seen = new Set<SlotState>([from]);
      for (const state of seen) for (const next of transitions[state]) seen.add(next);
      return seen;
    };
    assert.equal(reachable("offline").size, slotStates.length);
    for (const state of slotStates) assert.ok(reachable(state).has("offline"), state);
  });

  it("serve requests in three of nine", () => {
    assert.deepEqual(slotStates.filter(isAvailable), ["ready", "serving", "idle"]);
  });
});
