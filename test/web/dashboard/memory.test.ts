import assert from "node:assert/strict";
import { it } from "node:test";
import { heldOn, memoryOf, withEvent } from "../../../web/dashboard/memory.ts";

const process = { role: "main" as const, ordinal: 0, host: "127.0.0.1", port: 1, endpoint: "", isReady: true };
const loaded = {
  memory: { host_bytes: 3, devices: [{ id: "gpu0", bytes: 4 }] },
  memory_bytes: 9,
  processes: [{ ...process, pid: 7 }],
};

it("memory is that of the processes on all devices, and of none once the slot is unloaded", () => {
  assert.equal(memoryOf(loaded), 7);
  assert.equal(memoryOf({ ...loaded, memory: null }), 9);
  assert.equal(heldOn(loaded, "gpu0"), 4);
  const unloaded = { ...loaded, processes: [] };
  assert.equal(memoryOf(unloaded), null);
  assert.equal(heldOn(unloaded, "host"), 0);
  assert.equal(heldOn(unloaded, "gpu0"), 0);
});

it("an event without memory keeps the last figure of the same processes alone", () => {
  const after = (change: Partial<(typeof loaded.processes)[number]>): number | null | undefined => {
    const event: Partial<typeof loaded> = { processes: [{ ...process, pid: 7, ...change }] };
    return withEvent<Partial<typeof loaded>>(loaded, event).memory_bytes;
  };
  assert.equal(after({}), 9);
  assert.equal(after({ port: 2 }), 9);
  assert.equal(after({ pid: 8 }), null);
});
