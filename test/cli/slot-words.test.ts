import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readyCell, stateLine } from "../../src/cli/slot-words.ts";

const because = (reason: string): object => ({
  conditions: [{ type: "Ready", status: "True", reason }],
});
const wrongly = (type: string, reason: string): { readonly conditions: readonly object[] } => ({
  conditions: [
    { type: "Ready", status: "False", reason },
    { type, status: "True", reason },
  ],
});
const editedOnDemand = {
  conditions: [
    ...wrongly("Stalled", "InvalidSpec").conditions,
    { type: "Available", status: "False", reason: "ScaledToZero" },
  ],
};
const half = { progress: { bytes_done: 41, bytes_total: 100 } };

describe("a slot's state in words", () => {
  for (const [slot, cell, line] of [
    [{ state: "ready" }, "Ready", "ready"],
    [{ state: "idle" }, "Ready", "idle (Ready)"],
    [{ state: "serving", in_flight: 3 }, "Answering 3", "serving (Answering 3)"],
    [{ state: "pulling", ...half }, "Pulling 41 %", "pulling (Pulling 41 %)"],
    [{ state: "starting", progress: { bytes_done: 41, bytes_total: null } }, "Loading", "starting (Loading)"],
    [{ state: "unloading" }, "Unloading", "unloading"],
    [{ state: "idle", ...wrongly("Stalled", "InvalidSpec") }, "Ready (InvalidSpec)", "idle (Ready)"],
    [
      { state: "offline", ...editedOnDemand },
      "On demand (InvalidSpec)",
      "offline (On demand: loads with the first request)",
    ],
    [{ state: "ready", ...wrongly("Degraded", "NotOnGpu") }, "Ready (NotOnGpu)", "ready"],
    [{ state: "error", ...because("CrashLoop") }, "Failed (CrashLoop)", "error (Failed)"],
    [
      { state: "offline", ...because("ScaledToZero") },
      "On demand",
      "offline (On demand: loads with the first request)",
    ],
    [
      { state: "offline", ...because("UnloadedUntilRequest") },
      "Unloaded by hand",
      "offline (Unloaded by hand: loads with the next request)",
    ],
    [
      { state: "offline", ...because("Unloaded") },
      "Unloaded by hand",
      "offline (Unloaded by hand: loads once somebody loads it)",
    ],
    [{ state: "offline", ...because("NotConfigured") }, "Not set up", "offline (Not set up)"],
    [{ state: "offline", ...because("GroupFull") }, "Waiting for memory", "offline (Waiting for memory)"],
    [{ state: "of a newer service" }, "of a newer service", "of a newer service"],
  ] as const)
    it(`${cell}: ${line}`, () => assert.deepEqual([readyCell(slot), stateLine(slot)], [cell, line]));
});
