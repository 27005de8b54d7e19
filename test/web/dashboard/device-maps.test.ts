import assert from "node:assert/strict";
import { it } from "node:test";
import { deviceMaps } from "../../../web/dashboard/device-maps.ts";

const process = { role: "main" as const, ordinal: 0, host: "h", port: 1, endpoint: "", isReady: true };
const gpu = { id: "gpu0", name: "H100", memory_bytes: 100, memory_usable_bytes: 80 };

it("the memory of a device is what slots hold, what a slot that loads still needs, and what is left", () => {
  const fit = {
    stage: "header" as const,
    device: "gpu0",
    need_bytes: 30,
    budget_bytes: 80,
    error_ratio: null,
    devices: [{ id: "gpu0", need_bytes: 30, budget_bytes: 80 }],
    stages: [],
  };
  const held = (id: string, bytes: number) => ({ host_bytes: 5, devices: [{ id, bytes }] });
  const maps = deviceMaps({ gpus: [gpuOf(gpu)] }, [
    { name: "a", state: "ready", fit: null, memory: held("gpu0", 20), processes: [process] },
    { name: "b", state: "warming", fit, memory: held("gpu0", 10), processes: [process] },
    { name: "c", state: "offline", fit, memory: null, processes: [] },
  ]);
  assert.deepEqual(maps, [
    {
      id: "gpu0",
      name: "H100",
      total: 80,
      segments: [
        { slot: "a", kind: "held", bytes: 20 },
        { slot: "b", kind: "held", bytes: 10 },
        { slot: "b", kind: "coming", bytes: 20 },
        { kind: "free", bytes: 30 },
      ],
    },
  ]);
});

it("a device whose memory is not known is left out", () => {
  assert.deepEqual(deviceMaps({ gpus: [gpuOf({ ...gpu, memory_bytes: null, memory_usable_bytes: null })] }, []), []);
  assert.deepEqual(deviceMaps({}, []), []);
});

function gpuOf(own: { id: string; name: string; memory_bytes: number | null; memory_usable_bytes: number | null }) {
  return {
    ...own,
    vendor: "nvidia" as const,
    vendor_id: null,
    device_id: null,
    architecture: null,
    integrated: false,
    driver: null,
    shared_memory_bytes: null,
    render_node: null,
    backends: ["cuda" as const],
    evidence: [],
  };
}
