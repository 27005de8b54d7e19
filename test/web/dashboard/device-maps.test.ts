import assert from "node:assert/strict";
import { it } from "node:test";
import { deviceMaps, widthsOf } from "../../../web/dashboard/device-maps.ts";

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

it("other programs have what is used beyond what slots hold or will need", () => {
  const slot = { name: "a", state: "ready" as const, fit: null, processes: [process] };
  const memory = { host_bytes: 5, devices: [{ id: "gpu0", bytes: 20 }] };
  const othersOf = (gpuUsed: number | null, hostUsed: number | null, limit: number | null): unknown => {
    const host = {
      total_bytes: 100,
      available_bytes: 1,
      swap_bytes: 0,
      limit_bytes: limit,
      usable_bytes: 50,
      evidence: [],
    };
    const now = {
      read_at: "",
      cpu_percent: null,
      memory: { used_bytes: hostUsed, free_bytes: null },
      gpus: [
        { id: "gpu0", total_bytes: 80, used_bytes: gpuUsed, utilization_percent: null, temperature_celsius: null },
      ],
    };
    const maps = deviceMaps({ gpus: [gpuOf(gpu)], memory: host }, [{ ...slot, memory }], now);
    return maps.map(({ segments }) => segments.map(({ kind, bytes }) => `${kind} ${bytes}`).join(", "));
  };
  assert.deepEqual(othersOf(50, 25, null), ["held 20, other 30, free 30", "held 5, other 20, free 25"]);
  // Pages of mapped weights are held by the slot, and can be freed: they do not count as used.
  assert.deepEqual(othersOf(15, 3, null), ["held 20, free 60", "held 5, free 45"]);
  assert.deepEqual(othersOf(null, null, null), ["held 20, free 60", "held 5, free 45"]);
  assert.deepEqual(othersOf(90, 25, 50), ["held 20, other 70", "held 5, free 45"]);
});

it("the slots of a group stand side by side, with what is left of its budget, where most of their memory is", () => {
  const slot = (name: string, device: number) => ({
    name,
    state: "ready" as const,
    fit: null,
    memory: { host_bytes: 1, devices: [{ id: "gpu0", bytes: device }] },
    processes: [process],
  });
  const slots = [slot("a", 10), slot("b", 20), slot("c", 5)];
  const group = { name: "desk", declared: true, lent_until: null, members: [{ slot: "c" }, { slot: "a" }] };
  const budget = (resource: string, total: number) => [{ resource, total, used: 15, free: total - 15 }];
  const told = (...groups: Parameters<typeof deviceMaps>[3][]): readonly string[] =>
    groups.map((each) =>
      (deviceMaps({ gpus: [gpuOf(gpu)] }, slots, null, each)[0]?.segments ?? [])
        .map(({ slot: name, group: of, kind, bytes }) => [of, name ?? kind, bytes].filter((part) => part).join(" "))
        .join(", "),
    );
  assert.deepEqual(
    told(
      [{ ...group, budget: budget("memory", 40) }],
      [{ ...group, budget: budget("memory", 1000) }],
      [{ ...group, budget: budget("gpu0", 80) }],
      [{ ...group, budget: budget("memory", 40), lent_until: "2027-01-01T00:00:00.000Z" }],
    ),
    [
      "desk a 10, desk c 5, desk reserved 25, b 20, free 20",
      "desk a 10, desk c 5, desk reserved 45, b 20",
      "desk a 10, desk c 5, b 20, free 45",
      "desk a 10, desk c 5, b 20, free 45",
    ],
  );
});

it("a small segment of a bar is seen, and the widest makes room for it", () => {
  const of = (...sizes: readonly number[]) => widthsOf(sizes.map((bytes) => ({ kind: "held", bytes })));
  assert.deepEqual(of(1, 9999), [10, 990]);
  assert.deepEqual(of(250, 750), [250, 750]);
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
