import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import type { SlotStatus } from "../../../src/api/status.ts";
import { capacityOf, needsOf } from "../../../src/operator/groups/needs.ts";
import { gpu } from "../../hardware/parts.ts";
import { gibibyte } from "./members.ts";

const card = (id: string, size: number): HardwareFacts["gpus"][number] =>
  gpu({
    id,
    vendor: "nvidia",
    integrated: false,
    memory_bytes: size * gibibyte,
    backends: ["cuda", "vulkan"],
    evidence: [],
  });
const memory: HardwareFacts["memory"] = {
  total_bytes: 64 * gibibyte,
  available_bytes: 50 * gibibyte,
  swap_bytes: 0,
  limit_bytes: null,
  usable_bytes: 64 * gibibyte,
  evidence: [],
};
const two = { memory, gpus: [card("0000:01:00.0", 24), card("0000:02:00.0", 16)] };

const inGib = (amounts: ReadonlyMap<string, number>): string =>
  [...amounts].map(([id, amount]) => `${id} ${amount >= 1000 ? `${amount / gibibyte} GiB` : amount}`).join(", ");

describe("the budget of a group", () => {
  const table: readonly [what: string, Parameters<typeof capacityOf>[0], expected: string][] = [
    ["places", { slots: 2 }, "slots 2"],
    ["one place without any", {}, "slots 1"],
    ["bytes", { memoryBytes: 10 * gibibyte }, "memory 10 GiB"],
    ["a device by number", { device: "gpu1" }, "0000:02:00.0 16 GiB"],
    ["a device by its id", { device: "0000:01:00.0" }, "0000:01:00.0 24 GiB"],
    ["the host", { device: "host" }, "host 64 GiB"],
    [
      "every device for a group that no SlotGroup declares",
      undefined,
      "host 64 GiB, 0000:01:00.0 24 GiB, 0000:02:00.0 16 GiB",
    ],
  ];
  for (const [what, budget, expected] of table)
    it(what, () => assert.equal(inGib(capacityOf(budget, two).capacity), expected));

  it("is a single place, with a problem that names the devices, where the device is absent or its memory is unknown", () => {
    const { capacity, problem } = capacityOf({ device: "gpu7" }, two);
    assert.equal(inGib(capacity), "slots 1");
    assert.equal(
      problem,
      "this machine has no device gpu7: one slot at a time is loaded; known are host, 0000:01:00.0 (gpu0), 0000:02:00.0 (gpu1)",
    );
    const blind = { memory, gpus: [{ ...card("0000:01:00.0", 1), memory_bytes: null }] };
    assert.match(capacityOf({ device: "gpu0" }, blind).problem ?? "", /^the memory of gpu0 is not known: one slot/);
  });
});

describe("what a slot needs of a budget", () => {
  const fit = (devices: readonly (readonly [id: string, gib: number])[]): Pick<SlotStatus, "fit"> => ({
    fit: {
      stage: "engine",
      device: "host",
      needBytes: 0,
      devices: devices.map(([id, size]) => ({ id, needBytes: size * gibibyte })),
      stages: [],
    },
  });
  const onSecond = fit([
    ["CUDA1", 10],
    ["host", 2],
  ]);
  const onHost = fit([["host", 6]]);
  const held = (hostGib: number, devices: { id: string; bytes: number }[] = []): Pick<SlotStatus, "memory"> => ({
    memory: { hostBytes: hostGib * gibibyte, devices },
  });
  const grown = { ...onSecond, ...held(3, [{ id: "0000:02:00.0", bytes: 12 * gibibyte }]) };
  const unknownGpu = fit([["SYCL0", 4]]);
  type Budget = Parameters<typeof capacityOf>[0];
  const table: readonly [what: string, status: Partial<SlotStatus>, budget: Budget, expected: string][] = [
    ["its estimate, by the engine's own numbers of the GPUs", onSecond, { device: "gpu1" }, "0000:02:00.0 10 GiB"],
    ["nothing of another GPU", onSecond, { device: "gpu0" }, "0000:01:00.0 0"],
    ["its part on the host", onSecond, { device: "host" }, "host 2 GiB"],
    ["its part on GPUs, of bytes", onSecond, { memoryBytes: 1 }, "memory 10 GiB"],
    ["one place of several", onSecond, { slots: 1 }, "slots 1"],
    ["its GPU, where no SlotGroup declares the group", onSecond, undefined, "0000:01:00.0 0, 0000:02:00.0 10 GiB"],
    ["the host's memory, of bytes, on the processor", onHost, { memoryBytes: 1 }, "memory 6 GiB"],
    ["the host's memory on the processor", onHost, undefined, "host 6 GiB, 0000:01:00.0 0, 0000:02:00.0 0"],
    ["at least the memory that its processes hold on GPUs", grown, { memoryBytes: 1 }, "memory 12 GiB"],
    [
      "not the host's memory of a process on a GPU: the driver is mapped there",
      grown,
      { device: "host" },
      "host 2 GiB",
    ],
    ["at least the memory that its processes hold", held(5), { memoryBytes: 1 }, "memory 5 GiB"],
    ["of every GPU, where its own is unknown", unknownGpu, undefined, "0000:01:00.0 4 GiB, 0000:02:00.0 4 GiB"],
    [
      "all of its kind of device while nothing is known",
      { backend: "cuda" },
      { device: "gpu0" },
      "0000:01:00.0 24 GiB (unknown)",
    ],
    ["nothing of another kind", { backend: "cpu" }, { device: "gpu0" }, ""],
    ["nothing of a GPU while not even its backend is known", {}, { device: "gpu0" }, ""],
    ["all of the host while nothing is known", { backend: "cpu" }, { device: "host" }, "host 64 GiB (unknown)"],
    ["all bytes while nothing is known", { backend: "cuda" }, { memoryBytes: 5 * gibibyte }, "memory 5 GiB (unknown)"],
    ["nothing while nothing is known, where no SlotGroup declares the group", { backend: "cuda" }, undefined, ""],
  ];
  for (const [what, status, budget, expected] of table)
    it(what, () => {
      const declared = { ...capacityOf(budget, two), isDeclared: budget !== undefined };
      const { needs, isUnknown } = needsOf(status, declared, two);
      assert.equal(`${inGib(needs)}${isUnknown ? " (unknown)" : ""}`, expected);
    });
});
