import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { slotSpecSchema, completeSlot, type SlotSpecInput } from "../../../src/api/slot.ts";
import { gpuBudget } from "../../../src/models/fit/budget.ts";
import { specFit } from "../../../src/models/fit/spec-fit.ts";
import { recorded, smi } from "../../hardware/h100-machine.ts";
import { pc, pciTree, probed, type Tree } from "../../hardware/tree.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { realShapes } from "../../support/shapes.ts";

const gib = 1024 ** 3;
const mebibyte = 1024 ** 2;
const address = "0000:c4:00.0";
const home = `/sys/devices/pci0000:00/${address}`;

/** A processor with a GPU: 32 GiB, of which 2 GiB were carved out for it and 15 GiB may be mapped. */
const apuTree: Tree = {
  ...pc,
  ...pciTree(
    address,
    { class: "038000", vendor: "1002", device: "15bf" },
    { driver: "amdgpu", node: ["drm", "renderD128"] },
  ),
  "/proc/meminfo": `MemTotal: ${30 * mebibyte} kB\nMemAvailable: ${28 * mebibyte} kB\nCmaFree: 0 kB\nSwapTotal: 0 kB\n`,
  [`${home}/mem_info_vram_total`]: `${2 * gib}\n`,
  [`${home}/mem_info_vram_used`]: `${gib / 2}\n`,
  [`${home}/mem_info_gtt_total`]: `${15 * gib}\n`,
  [`${home}/mem_info_gtt_used`]: `${3 * gib}\n`,
  "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110003\ndrm_render_minor 128\n",
  "/dev/kfd": "",
  "/dev/dri/renderD128": "",
  "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json": "{}",
};

it("the budget of shared memory in files is GTT less its used part and the free carve-out", async () => {
  const { gpus, memory } = await probed({ tree: apuTree });
  const [gpu] = gpus;
  assert.ok(gpu !== undefined);
  const budget = gpuBudget(gpu, memory);
  assert.deepEqual([budget?.kind, budget?.freeBytes], ["unified", 13.5 * gib]);
});

describe("what fits a machine that was laid out as files", async () => {
  const lengths = realShapes["llama3-8b"];
  assert.ok(lengths !== undefined);
  const shape = await shapeFrom({ ...lengths, quantization: "Q4_K_M" }, { words: 8 });
  const said = (facts: HardwareFacts, backend: string, spec: SlotSpecInput): string | undefined =>
    specFit(completeSlot("primary", slotSpecSchema.parse(spec)), shape, facts, backend)?.message;

  it("is reported with the sum, and with the context and layers that would fit", async () => {
    const facts = await probed({ tree: recorded, smi: smi() });
    const model = { default: "l8", contextSize: 131_072 };
    assert.equal(said(facts, "cuda", { backend: "cuda", model }), undefined);
    const message = said(facts, "cuda", { backend: "cuda", model: { ...model, parallel: 5 } });
    // As the recorded engine needed: `l8-toobig-auto`, 85 GiB.
    assert.equal(
      message,
      "needs 85.1 GiB (weights 4.3 GiB, context 80.0 GiB, work 236 MiB, driver 600 MiB) on 0000:00:06.0, which has 79.2 GiB (its own memory); it fits with context_size 65536, or with gpu_layers 30, which is slower",
    );
    const fitting = { ...model, contextSize: 65_536, parallel: 5 };
    assert.equal(said(facts, "cuda", { backend: "cuda", model: fitting }), undefined, "what it names does fit");
    assert.equal(said(facts, "cuda", { backend: "cuda", model: { ...model, parallel: 5, gpuLayers: 30 } }), undefined);
  });
});
