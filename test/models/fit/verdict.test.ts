import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Gpu, HardwareFacts, Memory } from "../../../src/api/hardware.ts";
import { completeSlot, slotSpecSchema, type SlotSpecInput } from "../../../src/api/slot.ts";
import { gpuBudget, hostBudget } from "../../../src/models/fit/budget.ts";
import { estimate, sumOf } from "../../../src/models/fit/estimate.ts";
import { settingsOf } from "../../../src/models/fit/flags.ts";
import { declaredRequirement, measuredRequirement, requirementOf } from "../../../src/models/fit/need.ts";
import { specFit } from "../../../src/models/fit/spec-fit.ts";
import { judge } from "../../../src/models/fit/verdict.ts";
import { recorded, smi } from "../../hardware/h100-machine.ts";
import { apu, gpu } from "../../hardware/parts.ts";
import { probed } from "../../hardware/tree.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { realShapes, shapes } from "../../support/shapes.ts";

const gib = 1024 ** 3;
const memory: Memory = {
  total_bytes: 64 * gib,
  available_bytes: 48 * gib,
  swap_bytes: 0,
  limit_bytes: null,
  usable_bytes: 64 * gib,
  evidence: [],
};
const card: Gpu = gpu({
  id: "CUDA0",
  vendor: "nvidia",
  integrated: false,
  memory_bytes: 80 * gib,
  memory_usable_bytes: 79 * gib,
  memory_free_bytes: 70 * gib,
  evidence: [],
});
const beside = { processBytes: 0, promptCacheBytes: gib };
const cuda = { id: "CUDA0", share: 1, backend: "cuda" } as const;

describe("the memory of a device that a slot can get", () => {
  it("is a card's memory as its driver reports it, with the part that is free now", () => {
    const reason = "its own memory";
    assert.deepEqual(gpuBudget(card, memory), {
      id: "CUDA0",
      kind: "discrete",
      totalBytes: 79 * gib,
      freeBytes: 70 * gib,
      reason,
    });
    assert.equal(gpuBudget({ ...card, memory_bytes: null, memory_usable_bytes: null }, memory), undefined);
  });

  it("is of shared memory the lesser of what the GPU may map and of what the machine has left", () => {
    const shared = {
      ...apu,
      shared_memory_bytes: 32 * gib,
      shared_memory_used_bytes: 4 * gib,
      memory_free_bytes: gib / 2,
    };
    const mapped = gpuBudget(shared, memory);
    assert.deepEqual([mapped?.kind, mapped?.totalBytes, mapped?.freeBytes], ["unified", 33 * gib, 28.5 * gib]);
    assert.match(mapped?.reason ?? "", /GTT/);
    const scarce = gpuBudget(shared, { ...memory, available_bytes: 20 * gib, contiguous_free_bytes: 2 * gib });
    assert.equal(scarce?.freeBytes, 17 * gib, "available, less what is set aside for devices, less 1 GiB");
    assert.match(scarce?.reason ?? "", /the machine's memory has left/);
  });

  it("is the limit of the control group for the processor, whatever is used now", () => {
    assert.equal(hostBudget({ ...memory, available_bytes: gib })?.totalBytes, 64 * gib);
    const limited = hostBudget({ ...memory, limit_bytes: 8 * gib, usable_bytes: 8 * gib });
    assert.deepEqual([limited?.totalBytes, limited?.reason], [8 * gib, "the limit of its control group"]);
    assert.equal(hostBudget({ ...memory, usable_bytes: null }), undefined);
  });
});

describe("whether a model fits", async () => {
  const real = realShapes["llama3-8b"];
  assert.ok(real !== undefined);
  const shape = await shapeFrom({ ...real, quantization: "Q4_K_M", context: 131_072 }, { words: 8 });
  const settings = (flags: string): Parameters<typeof estimate>[1] =>
    settingsOf(flags.split(" "), {}, { contextLength: shape.contextLength, gpus: [cuda], projectorBytes: 0 });
  const budgets = [gpuBudget(card, memory), hostBudget(memory)].filter((budget) => budget !== undefined);
  const asked = (flags: string): ReturnType<typeof judge> =>
    judge(requirementOf(estimate(shape, settings(flags)), beside, "header"), budgets);

  it("depends on the other slots where it would fit alone", () => {
    const flags = "-c 589824 -np 5";
    const found = asked(flags);
    assert.equal(found.kind, "busy");
    assert.match(found.message, /which has 70\.0 GiB free of 79\.0 GiB$/);
    const own = new Map([["CUDA0", 9 * gib]]);
    const required = requirementOf(estimate(shape, settings(flags)), beside, "header");
    assert.equal(judge(required, budgets, own).kind, "fits", "its own engine leaves first");
  });

  it("is not denied for less than what an estimate may be wrong by, and a measured figure is believed", () => {
    const needs = (bytes: number): Parameters<typeof measuredRequirement>[0] => [{ id: "CUDA0", bytes }];
    const at = (bytes: number, stage: "header" | "measured"): string =>
      judge({ ...measuredRequirement(needs(bytes), [], beside), stage }, [
        { id: "CUDA0", kind: "discrete", totalBytes: 100, reason: "" },
      ]).kind;
    assert.deepEqual(
      [at(103, "header"), at(104, "header"), at(100, "measured"), at(101, "measured")],
      ["fits", "does_not_fit", "fits", "does_not_fit"],
    );
  });

  it("is unknown where the device is unknown", () => {
    const required = requirementOf(estimate(shape, settings("-c 8192")), beside, "header");
    assert.equal(judge(required, [{ id: "host", kind: "host", totalBytes: 64 * gib, reason: "" }]).kind, "unknown");
  });

  it("counts mapped weights once where the processor has rearranged copies, and what may be kept of prompts", async () => {
    const repacked = await shapeFrom(shapes.repacked, { words: 8 });
    const found = estimate(
      repacked,
      settingsOf(["-c", "4096"], {}, { contextLength: 4096, gpus: [], projectorBytes: 0 }),
    );
    const [host] = requirementOf(found, beside, "header").needs;
    assert.ok(host !== undefined);
    assert.equal(
      host.bytes,
      found.host.weights - found.unusedMappedBytes + found.host.cache + found.host.compute + found.host.output + gib,
    );
    assert.deepEqual(
      host.parts.map(({ name }) => name),
      ["weights", "context", "work", "kept prompts"],
    );
    const measuredBytes = (bytes: number): number | undefined =>
      measuredRequirement([{ id: "host", bytes }], [found], beside).needs[0]?.bytes;
    const explained = sumOf(found.host);
    assert.equal(measuredBytes(explained), explained - found.unusedMappedBytes + gib);
    assert.equal(measuredBytes(explained + gib / 2), explained + gib - found.unusedMappedBytes, "half of it is filled");
    assert.equal(measuredBytes(explained + 2 * gib), explained + 2 * gib - found.unusedMappedBytes, "all of it is");
  });

  it("follows from the declared size where nothing else is known", () => {
    const declared = declaredRequirement({ memoryBytes: 2 * gib, gpuBytes: 90 * gib }, "CUDA0");
    assert.ok(declared !== undefined);
    const found = judge(declared, budgets);
    assert.deepEqual(
      [found.kind, found.message],
      ["does_not_fit", "needs 90.0 GiB (declared) on CUDA0, which has 79.0 GiB (its own memory)"],
    );
    assert.equal(declaredRequirement({ memoryBytes: undefined, gpuBytes: gib }, undefined), undefined);
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
    // Flags that move weights, or load more: the header gives no figure for these.
    for (const args of [
      ["--n-cpu-moe", "24"],
      ["--lora", "/l.gguf"],
    ])
      assert.equal(said(facts, "cuda", { backend: "cuda", model: { ...model, parallel: 5 }, args }), undefined);
  });
});
