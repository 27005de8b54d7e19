import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { computeIn } from "../../src/engines/llama-report.ts";
import { cpuMs } from "../support/cpu-time.ts";

const recorded = async (name: string): Promise<string> => await readFile(`test/fixtures/h100/load-${name}.log`, "utf8");
const mebibytes = (sum: number): number => Math.round(sum * 1024 ** 2);

describe("the devices that a llama-server on an H100 reported", () => {
  it("all layers on the GPU, with what they take there", async () => {
    const found = computeIn(await recorded("l8-base"));
    assert.deepEqual([found?.devices, found?.layersOffloaded, found?.layersTotal], [["CUDA0"], 33, 33]);
    // nvidia-smi had 6132 MiB: 588 more, of the CUDA context.
    const bytes = found?.buffers?.[0]?.bytes ?? 0;
    assert.ok(Math.abs(bytes - mebibytes(4403.49 + 1024 + 116.01)) < 1024, String(bytes));
  });
  it("a part, where llama.cpp moved what did not fit", async () => {
    const found = computeIn(await recorded("l8-toobig-auto"));
    assert.deepEqual([found?.devices, found?.layersOffloaded, found?.layersTotal], [["CUDA0"], 29, 33]);
  });
  it("no layers, as configured, and yet it works on the GPU", async () => {
    const found = computeIn(await recorded("l8-ngl0"));
    assert.deepEqual([found?.devices, found?.layersOffloaded, found?.layersTotal], [[], 0, 33]);
    assert.deepEqual(found?.buffers, [{ device: "CUDA0", bytes: mebibytes(129.5) }]);
  });
  for (const name of ["l8-dev-none", "h-no-device-env"]) {
    it(`none, whatever it counts as offloaded: ${name}`, async () => {
      assert.deepEqual(computeIn(await recorded(name)), { devices: [], layersOffloaded: 0, layersTotal: 33 });
    });
  }
  it("nothing, at a level of its log that has no such lines", async () => {
    assert.equal(computeIn(await readFile("test/fixtures/h100/killed-while-streaming.log", "utf8")), undefined);
    assert.equal(computeIn(""), undefined);
  });
});

it("a log of a megabyte without a blank is read in no time", () => {
  const tookMs = cpuMs(() => {
    assert.deepEqual(computeIn(`load_tensors: loading model tensors\n${"x".repeat(1024 ** 2)}`)?.devices, []);
  });
  assert.ok(tookMs < 2000, `${tookMs} ms`);
});

it("the embedded engine says the same of itself", () => {
  const said = "load_tensors: offloaded 0/3 layers to GPU: this engine computes on the CPU\n";
  assert.deepEqual(computeIn(said), { devices: [], layersOffloaded: 0, layersTotal: 3 });
});
