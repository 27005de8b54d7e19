import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hardware, HardwareFacts, Suggestion } from "../../src/api/hardware.ts";
import { engineKinds } from "../../src/api/names.ts";
import { backendOf, devicesOf } from "../../src/engines/placement.ts";
import { withSuggestions } from "../../src/engines/suggestion.ts";
import { device, gpu } from "../hardware/parts.ts";
import { pcFacts } from "../hardware/tree.ts";

const fixed: Omit<Hardware["suggested"], "llama" | "image"> = {
  npu: {
    backend: "npu",
    reason: "what the npu engine comes for",
    available: false,
    obstacles: ["there is no /dev/accel/accel0"],
    evidence: [],
  },
  stt: { backend: "cpu", reason: "what the stt engine comes for", available: true, obstacles: [], evidence: [] },
  tts: { backend: "cpu", reason: "what the tts engine comes for", available: true, obstacles: [], evidence: [] },
  custom: {
    backend: "cpu",
    reason: "a custom engine gets the devices that its manifest names",
    available: true,
    obstacles: [],
    evidence: [],
  },
};

const cpu: Suggestion = {
  backend: "cpu",
  reason: "there is no GPU",
  available: true,
  obstacles: [],
  evidence: [
    { source: "/dev/nvidiactl", says: "is not there" },
    { source: "/dev/dri", says: "has no render node" },
  ],
};

const nvidiactl = [{ source: "/dev/nvidiactl", says: "is there" }];
const cuda: Suggestion = {
  backend: "cuda",
  reason: "there is an NVIDIA driver",
  available: true,
  obstacles: [],
  evidence: nvidiactl,
};

const radeon = gpu({
  id: "0000:c5:00.0",
  vendor: "amd",
  device_id: "15bf",
  driver: "amdgpu",
  render_node: "/dev/dri/renderD128",
  evidence: [],
});
const radeonSeen = { source: "/dev/dri/renderD128", says: "amd 15bf, driver amdgpu" };
const npuOf = (vendor: "amd" | "intel"): HardwareFacts["npu"] => ({
  vendor,
  vendor_id: null,
  device_id: "17f0",
  name: "NPU",
  driver: "amdxdna",
  device: "/dev/accel/accel0",
  evidence: [],
});

const table: readonly [string, Partial<HardwareFacts>, Partial<Record<(typeof engineKinds)[number], Suggestion>>][] = [
  ["no device", {}, {}],
  ["NVIDIA", { devices: [device("/dev/nvidiactl"), device("/dev/nvidia0")] }, { llama: cuda, image: cuda }],
  [
    "AMD with its compute driver",
    { gpus: [radeon], devices: [device("/dev/kfd"), device("/dev/dri/renderD128")] },
    {
      llama: {
        backend: "vulkan",
        reason: "there is a render node in /dev/dri",
        available: true,
        obstacles: [],
        evidence: [radeonSeen],
      },
      image: {
        backend: "rocm",
        reason: "there is /dev/kfd",
        available: true,
        obstacles: [],
        evidence: [{ source: "/dev/kfd", says: "is there" }, radeonSeen],
      },
    },
  ],
  [
    "a render node that may not be opened",
    { devices: [device("/dev/dri/renderD128", { accessible: false, problem: "exists, but uid 1 may not" })] },
    Object.fromEntries(
      ["llama", "image"].map((engine) => [
        engine,
        {
          backend: "vulkan" as const,
          reason: "there is a render node in /dev/dri",
          available: true,
          obstacles: ["/dev/dri/renderD128 exists, but uid 1 may not"],
          evidence: [{ source: "/dev/dri/renderD128", says: "is there" }],
        },
      ]),
    ),
  ],
  [
    "an NPU of AMD",
    { npu: npuOf("amd"), devices: [device("/dev/accel/accel0")] },
    {
      npu: {
        ...fixed.npu,
        available: true,
        obstacles: [],
        evidence: [{ source: "/dev/accel/accel0", says: "NPU, driver amdxdna" }],
      },
    },
  ],
  [
    "an NPU of another maker",
    { npu: npuOf("intel"), devices: [device("/dev/accel/accel0")] },
    {
      npu: {
        ...fixed.npu,
        available: true,
        obstacles: ["FastFlowLM runs on AMD's XDNA NPUs only"],
        evidence: [{ source: "/dev/accel/accel0", says: "NPU, driver amdxdna" }],
      },
    },
  ],
];

describe("suggested engines and backends", () => {
  for (const [name, parts, expected] of table) {
    it(`with ${name}`, () => {
      const facts = { ...pcFacts, ...parts };
      const { suggested } = withSuggestions(facts);
      assert.deepEqual(suggested, { llama: cpu, image: cpu, ...fixed, ...expected });
      for (const engine of engineKinds) {
        const auto = backendOf({ engine, backend: "auto" }, devicesOf(facts));
        assert.deepEqual(auto, { value: suggested[engine].backend, reason: suggested[engine].reason });
      }
    });
  }
});
