import assert from "node:assert/strict";
import { it } from "node:test";
import { stateWords, type DescribedSlot } from "../../src/api/state-words.ts";

const progress = { bytes_done: 41, bytes_total: 100 };

for (const [state, reason, more, expected] of [
  ["serving", "Loaded", { in_flight: 3 }, ["info", "Answering 3"]],
  ["serving", "Loaded", {}, ["good", "Ready", "answered just now"]],
  ["ready", "Loaded", {}, ["good", "Ready"]],
  ["idle", "Loaded", {}, ["good", "Ready", "idle"]],
  ["pulling", "Pulling", { progress }, ["busy", "Pulling 41 %"]],
  ["warming", "Loading", { progress: { ...progress, bytes_total: null } }, ["busy", "Loading"]],
  ["unloading", "Unloading", {}, ["busy", "Unloading"]],
  ["error", "CrashLoop", {}, ["bad", "Failed"]],
  ["offline", "ScaledToZero", {}, ["off", "On demand", "loads with the first request"]],
  ["offline", "UnloadedUntilRequest", {}, ["off", "Unloaded by hand", "loads with the next request"]],
  ["offline", "Unloaded", {}, ["off", "Unloaded by hand", "loads once somebody loads it"]],
  ["offline", "NotConfigured", {}, ["off", "Not set up"]],
  ["offline", "Lent", {}, ["lent", "Lent", "its group's memory is lent"]],
  ["offline", "GroupFull", {}, ["busy", "Waiting for memory"]],
  ["offline", "Unheard", {}, ["off", "Offline"]],
] as const satisfies readonly (readonly [DescribedSlot["state"], string, Partial<DescribedSlot>, readonly string[]])[])
  it(`a slot that is ${state} by ${reason} is said to be ${expected[1]}`, () => {
    const slot = { state, in_flight: 0, progress: null, conditions: [{ type: "Ready", reason }], ...more };
    const { tone, text, aside } = stateWords(slot);
    assert.deepEqual([tone, text, ...(aside === undefined ? [] : [aside])], expected);
  });
