import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hardware, HardwareFacts, Suggestion } from "../../src/api/hardware.ts";
import { engineKinds } from "../../src/api/names.ts";
import { backendOf, devicesOf } from "../../src/engines/placement.ts";
import { withSuggestions } from "../../src/engines/suggestion.ts";
import { device, gpu } from "../hardware/parts.ts";
import { pcFacts } from "../hardware/tree.ts";

function suggest(backend: Suggestion["backend"], reason: string, ...evidence: Suggestion["evidence"]): Suggestion {
  return { backend, reason, available: true, obstacles: [], evidence };
}

const noNpu = {
  ...suggest("npu", "the only backend of the npu engine"),
  available: false,
  obstacles: ["there is no /dev/accel/accel0"],
};
const fixed: Omit<Hardware["suggested"], "llama" | "image"> = {
  npu: noNpu,
  stt: suggest("cpu", "the only backend of the stt engine"),
  tts: suggest("cpu", "the only backend of the tts engine"),
  custom: suggest("cpu", "a custom engine gets the devices that its manifest names"),
};
const cpu = suggest(
  "cpu",
  "there is no GPU",
  { source: "/dev/nvidiactl", says: "is not there" },
  { source: "/dev/dri", says: "has no render node" },
);
const cuda = suggest("cuda", "there is an NVIDIA driver", { source: "/dev/nvidiactl", says: "is there" });
const renderNode = "there is a render node in /dev/dri";

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

const closed = {
  ...suggest("vulkan", renderNode, { source: "/dev/dri/renderD128", says: "is there" }),
  obstacles: ["/dev/dri/renderD128 exists, but uid 1 may not"],
};
const amdNpu = suggest("npu", noNpu.reason, { source: "/dev/accel/accel0", says: "NPU, driver amdxdna" });

const table: readonly [string, Partial<HardwareFacts>, Partial<Record<(typeof engineKinds)[number], Suggestion>>][] = [
  ["no device", {}, {}],
  ["NVIDIA", { devices: [device("/dev/nvidiactl"), device("/dev/nvidia0")] }, { llama: cuda, image: cuda }],
  [
    "AMD with its compute driver",
    { gpus: [radeon], devices: [device("/dev/kfd"), device("/dev/dri/renderD128")] },
    {
      llama: suggest("vulkan", renderNode, radeonSeen),
      image: suggest("rocm", "there is /dev/kfd", { source: "/dev/kfd", says: "is there" }, radeonSeen),
    },
  ],
  [
    "a render node that may not be opened",
    { devices: [device("/dev/dri/renderD128", { accessible: false, problem: "exists, but uid 1 may not" })] },
    { llama: closed, image: closed },
  ],
  ["a compute driver without a render node", { devices: [device("/dev/kfd")] }, {}],
  ["an NPU of AMD", { npu: npuOf("amd"), devices: [device("/dev/accel/accel0")] }, { npu: amdNpu }],
  [
    "an NPU of another maker",
    { npu: npuOf("intel"), devices: [device("/dev/accel/accel0")] },
    { npu: { ...amdNpu, obstacles: ["FastFlowLM runs on AMD's XDNA NPUs only"] } },
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
        const named = backendOf({ engine, backend: "rocm" }, devicesOf(facts));
        assert.deepEqual(named, { value: "rocm", reason: "the spec" });
      }
    });
  }
});
