import assert from "node:assert/strict";
import { it } from "node:test";
import type { Gpu } from "../../../src/api/hardware.ts";
import { GpuMemory, gpuMemoryOf } from "../../../src/operator/report/gpu-memory.ts";
import { gpu } from "../../hardware/parts.ts";
import { until } from "../../support/until.ts";

it("GPUs have the memory that the driver leaves, and nothing where it is not known", () => {
  const known = (id: string, more: Partial<Gpu>): Gpu =>
    gpu({ id, vendor: "nvidia", integrated: false, evidence: [], ...more });
  const gpus = [
    known("0000:01:00.0", { memory_bytes: 24, memory_usable_bytes: 23, memory_free_bytes: 7 }),
    known("0000:02:00.0", { memory_bytes: 16 }),
    known("0000:00:02.0", {}),
  ];
  assert.deepEqual(gpuMemoryOf({ gpus }), [
    { device: "0000:01:00.0", totalBytes: 23, freeBytes: 7 },
    { device: "0000:02:00.0", totalBytes: 16, freeBytes: undefined },
  ]);
});

it("a scrape waits for no probe, and asks for one at most once a minute; a driver that fails leaves no old figure", async () => {
  let now = 0;
  let asked = 0;
  const first = [{ device: "a", totalBytes: 24, freeBytes: 7 }];
  const answer = async (): Promise<typeof first> => {
    asked += 1;
    if (asked > 1) throw new Error("hangs");
    return first;
  };
  const memory = new GpuMemory(answer, () => now);
  const read = (): unknown => [[...memory.samples("totalBytes")], [...memory.samples("freeBytes")]];
  assert.deepEqual(read(), [[], []]);
  const known = [[['device="a"', 24]], [['device="a"', 7]]];
  await until("the probe has answered", () => JSON.stringify(read()) === JSON.stringify(known));
  now = 59_000;
  assert.deepEqual(read(), known);
  assert.equal(asked, 1);
  now = 61_000;
  assert.deepEqual(read(), known, "the old one until the probe has answered");
  await until("the probe has failed", () => JSON.stringify(read()) === "[[],[]]");
  assert.equal(asked, 2);
});
