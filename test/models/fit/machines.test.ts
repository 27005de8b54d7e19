import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { slotSpecSchema, completeSlot, type SlotSpecInput } from "../../../src/api/slot.ts";
import { gpuBudget, hostBudget, type Budget } from "../../../src/models/fit/budget.ts";
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
function apuTree(given: { gttUsed: number; vramUsed: number; available: number; cmaFree: number }): Tree {
  const kib = (bytes: number): number => bytes / 1024;
  return {
    ...pc,
    ...pciTree(
      address,
      { class: "038000", vendor: "1002", device: "15bf" },
      { driver: "amdgpu", node: ["drm", "renderD128"] },
    ),
    "/proc/meminfo": `MemTotal: ${kib(30 * gib)} kB\nMemAvailable: ${kib(given.available)} kB\nCmaFree: ${kib(given.cmaFree)} kB\nSwapTotal: 0 kB\n`,
    [`${home}/mem_info_vram_total`]: `${2 * gib}\n`,
    [`${home}/mem_info_vram_used`]: `${given.vramUsed}\n`,
    [`${home}/mem_info_gtt_total`]: `${15 * gib}\n`,
    [`${home}/mem_info_gtt_used`]: `${given.gttUsed}\n`,
    "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110003\ndrm_render_minor 128\n",
    "/dev/kfd": "",
    "/dev/dri/renderD128": "",
    "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json": "{}",
  };
}

function budgetOf({ gpus, memory }: HardwareFacts): Budget | undefined {
  const [gpu] = gpus;
  return gpu === undefined ? hostBudget(memory) : gpuBudget(gpu, memory);
}

describe("the budget of a machine that was laid out as files", () => {
  it("with a card of its own memory: what the driver leaves, as the recorded H100", async () => {
    const budget = budgetOf(await probed({ tree: recorded, smi: smi() }));
    assert.deepEqual(
      [budget?.kind, budget?.totalBytes, budget?.freeBytes],
      ["discrete", 81_079 * mebibyte, 81_079 * mebibyte],
    );
  });

  it("with shared memory: GTT less its used part and the free carve-out, where the machine has more left", async () => {
    const tree = apuTree({ gttUsed: 3 * gib, vramUsed: gib / 2, available: 28 * gib, cmaFree: 0 });
    const budget = budgetOf(await probed({ tree }));
    assert.deepEqual([budget?.kind, budget?.freeBytes], ["unified", 13.5 * gib]);
  });

  it("with shared memory: what the machine has left, less CMA and 1 GiB, where that is less", async () => {
    const tree = apuTree({ gttUsed: 3 * gib, vramUsed: gib / 2, available: 10 * gib, cmaFree: gib / 4 });
    const budget = budgetOf(await probed({ tree }));
    assert.deepEqual([budget?.kind, budget?.freeBytes], ["unified", 8.75 * gib]);
    assert.ok((budget?.totalBytes ?? 0) >= 15 * gib, "what others hold now is not missing for good");
  });

  it("without a GPU: the control group's limit, not the memory that is free now", async () => {
    const tree = { ...pc, "/sys/fs/cgroup/user.slice/memory.max": `${6 * gib}\n` };
    const budget = budgetOf(await probed({ tree }));
    assert.deepEqual([budget?.kind, budget?.totalBytes, budget?.freeBytes], ["host", 6 * gib, undefined]);
  });
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
