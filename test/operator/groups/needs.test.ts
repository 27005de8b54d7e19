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
  const needs = (status: Partial<SlotStatus>, budget: Parameters<typeof capacityOf>[0]): string =>
    inGib(needsOf(status, { ...capacityOf(budget, two), isDeclared: budget !== undefined }, two).needs);
  const onSecond = fit([
    ["CUDA1", 10],
    ["host", 2],
  ]);

  it("is its estimate, by the engine's own numbers of the GPUs", () => {
    assert.equal(needs(onSecond, { device: "gpu1" }), "0000:02:00.0 10 GiB");
    assert.equal(needs(onSecond, { device: "gpu0" }), "0000:01:00.0 0");
    assert.equal(needs(onSecond, { device: "host" }), "host 2 GiB");
    assert.equal(needs(onSecond, { memoryBytes: 1 }), "memory 10 GiB");
    assert.equal(needs(onSecond, { slots: 1 }), "slots 1");
    assert.equal(needs(onSecond, undefined), "0000:01:00.0 0, 0000:02:00.0 10 GiB");
  });

  it("is the host's memory for a slot that computes on the processor", () => {
    const onHost = fit([["host", 6]]);
    assert.equal(needs(onHost, { memoryBytes: 1 }), "memory 6 GiB");
    assert.equal(needs(onHost, undefined), "host 6 GiB, 0000:01:00.0 0, 0000:02:00.0 0");
  });

  it("is at least the memory that its processes hold", () => {
    const grown = {
      ...onSecond,
      memory: { hostBytes: 3 * gibibyte, devices: [{ id: "0000:02:00.0", bytes: 12 * gibibyte }] },
    };
    assert.equal(needs(grown, { memoryBytes: 1 }), "memory 12 GiB");
    assert.equal(needs({ memory: { hostBytes: 5 * gibibyte, devices: [] } }, { memoryBytes: 1 }), "memory 5 GiB");
  });

  it("counts on every GPU where the engine's GPU is unknown", () => {
    assert.equal(needs(fit([["SYCL0", 4]]), undefined), "0000:01:00.0 4 GiB, 0000:02:00.0 4 GiB");
  });

  it("is the whole of a declared budget while nothing is known, of its own kind of device, and nothing of another", () => {
    assert.equal(needs({ backend: "cuda" }, { device: "gpu0" }), "0000:01:00.0 24 GiB");
    assert.equal(needs({ backend: "cpu" }, { device: "gpu0" }), "");
    assert.equal(needs({ backend: "cpu" }, { device: "host" }), "host 64 GiB");
    assert.equal(needs({ backend: "cuda" }, { memoryBytes: 5 * gibibyte }), "memory 5 GiB");
    assert.equal(needs({ backend: "cuda" }, undefined), "");
  });
});
