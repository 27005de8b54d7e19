import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { computeIn } from "../../src/engines/llama-report.ts";

const recorded = async (name: string): Promise<string> => await readFile(`test/fixtures/h100/load-${name}.log`, "utf8");
const mebibytes = (sum: number): number => Math.round(sum * 1024 ** 2);

describe("the devices that a llama-server reports, as recorded on an H100", () => {
  it("are all layers on the GPU, with the memory that they take there", async () => {
    const found = computeIn(await recorded("l8-base"));
    assert.deepEqual([found?.devices, found?.layersOffloaded, found?.layersTotal], [["CUDA0"], 33, 33]);
    // nvidia-smi had 6132 MiB: 588 more, of the CUDA context.
    const bytes = found?.buffers?.[0]?.bytes ?? 0;
    assert.ok(Math.abs(bytes - mebibytes(4403.49 + 1024 + 116.01)) < 1024, String(bytes));
  });
  it("are a part of the layers, where llama.cpp moved the rest to the host", async () => {
    const found = computeIn(await recorded("l8-toobig-auto"));
    assert.deepEqual([found?.devices, found?.layersOffloaded, found?.layersTotal], [["CUDA0"], 29, 33]);
  });
  it("are no layers, as configured, and the buffers with which it uses the GPU all the same", async () => {
    const found = computeIn(await recorded("l8-ngl0"));
    assert.deepEqual([found?.devices, found?.layersOffloaded, found?.layersTotal], [[], 0, 33]);
    assert.deepEqual(found?.buffers, [{ device: "CUDA0", bytes: mebibytes(129.5) }]);
  });
  for (const name of ["l8-dev-none", "h-no-device-env"]) {
    it(`are none, although the log counts offloaded layers: ${name}`, async () => {
      assert.deepEqual(computeIn(await recorded(name)), { devices: [], layersOffloaded: 0, layersTotal: 33 });
    });
  }
  it("are unknown at a log level that has no such lines", async () => {
    assert.equal(computeIn(await readFile("test/fixtures/h100/killed-while-streaming.log", "utf8")), undefined);
    assert.equal(computeIn(""), undefined);
  });
});

// An expression that looks back would take minutes.
for (const [what, said, devices] of [
  ["without a blank", `load_tensors: loading model tensors\n${"x".repeat(1024 ** 2)}`, []],
  ["in one line that begins as the report does, again and again", "offloading 1 ".repeat(80_000), undefined],
] as const)
  it(`are found in a log of a megabyte ${what}`, () => assert.deepEqual(computeIn(said)?.devices, devices));

it("are reported by the embedded engine in the same form", () => {
  const said = "load_tensors: offloaded 0/3 layers to GPU: this engine computes on the CPU\n";
  assert.deepEqual(computeIn(said), { devices: [], layersOffloaded: 0, layersTotal: 3 });
});
