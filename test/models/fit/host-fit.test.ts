import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CatalogEntry } from "../../../src/api/catalog.ts";
import type { Gpu, Memory } from "../../../src/api/hardware.ts";
import { catalogModelShape } from "../../../src/models/fit/catalog-shape.ts";
import { estimate, sumOf } from "../../../src/models/fit/estimate.ts";
import { deviceFor, hostFit } from "../../../src/models/fit/host-fit.ts";
import { declaredRequirement } from "../../../src/models/fit/need.ts";
import { serverDefaults } from "../../../src/models/fit/settings.ts";
import { judge } from "../../../src/models/fit/verdict.ts";
import { findCatalog } from "../../../src/program/shipped-catalog.ts";
import { apu, gpu } from "../../hardware/parts.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { realShapes } from "../../support/shapes.ts";

const gib = 1024 ** 3;
const catalog = new Map((await findCatalog()).map((entry) => [entry.metadata.name, entry]));

function entry(name: string): CatalogEntry {
  const found = catalog.get(name);
  assert.ok(found !== undefined, name);
  return found;
}

const memory = (size: number): Memory => ({
  total_bytes: size,
  available_bytes: size,
  swap_bytes: 0,
  limit_bytes: null,
  usable_bytes: size,
  evidence: [],
});

const card = (size: number, backends: Gpu["backends"] = ["cuda"]): Gpu =>
  gpu({ id: "0000:01:00.0", vendor: "nvidia", integrated: false, memory_bytes: size, backends, evidence: [] });

describe("the catalogue's verdict", () => {
  it("says that a model fits, with the sum and its evidence", () => {
    const fit = hostFit(entry("qwen3-8b"), undefined, { memory: memory(64 * gib), gpus: [card(24 * gib)] }, "cuda");
    assert.equal(fit.verdict, "fits");
    assert.match(
      fit.message,
      /^needs \d+\.\d GiB \(weights 4\.\d GiB, context 4\.5 GiB, .*\) on 0000:01:00\.0, which has 24\.0 GiB$/,
    );
    assert.deepEqual(fit.inputs, [
      "cuda on 0000:01:00.0, with 24.0 GiB, its own memory",
      "a size of about 4.7 GiB, by the catalogue",
      "llama, one request at a time",
      "a context of 32768 tokens",
    ]);
  });

  it("suggests a smaller context where the whole context does not fit, then fewer layers on the GPU", () => {
    const with8 = hostFit(entry("qwen3-8b"), undefined, { memory: memory(64 * gib), gpus: [card(8 * gib)] }, "cuda");
    assert.deepEqual([with8.verdict, with8.settings], ["fits_with", { contextSize: 16_384 }]);
    const with4 = hostFit(entry("qwen3-8b"), undefined, { memory: memory(64 * gib), gpus: [card(4 * gib)] }, "cuda");
    assert.equal(with4.verdict, "fits_with");
    assert.equal(with4.settings?.contextSize, 2048);
    const layers = with4.settings.gpuLayers ?? 0;
    assert.ok(layers > 15 && layers < 30, `${layers}`);
  });

  it("says how many bytes are missing where the model does not fit", () => {
    const fit = hostFit(entry("qwen3-8b"), undefined, { memory: memory(4 * gib), gpus: [] }, "cpu");
    assert.equal(fit.verdict, "does_not_fit");
    assert.match(fit.message, /on host, which has 4\.0 GiB \(the machine's memory\): \d.* too much$/);
    assert.ok((fit.needBytes ?? 0) > (fit.budgetBytes ?? 0));
  });

  it("follows from the header of a model that is here, not from the catalogue", async () => {
    const real = realShapes["qwen3-0.6b"];
    assert.ok(real !== undefined);
    const shape = await shapeFrom({ ...real, quantization: "Q8_0" }, { words: 8 });
    const fit = hostFit(entry("qwen3-0.6b"), shape, { memory: memory(16 * gib), gpus: [] }, "cpu");
    assert.ok(fit.inputs.includes("the header of the model's file"));
    const catalogued = hostFit(entry("qwen3-0.6b"), undefined, { memory: memory(16 * gib), gpus: [] }, "cpu");
    assert.ok(Math.abs((catalogued.needBytes ?? 0) / (fit.needBytes ?? 1) - 1) < 0.05, "and the two agree");
  });

  it("follows from an image model's minimum, on a card, on shared memory, and without a GPU", () => {
    const small = hostFit(entry("sdxl-turbo"), undefined, { memory: memory(32 * gib), gpus: [card(6 * gib)] }, "rocm");
    assert.deepEqual(
      [small.verdict, small.message],
      [
        "does_not_fit",
        "needs 7.5 GiB (declared) on 0000:01:00.0, which has 6.0 GiB (its own memory): 1.5 GiB too much",
      ],
    );
    const large = hostFit(
      entry("sdxl-turbo"),
      undefined,
      { memory: memory(32 * gib), gpus: [card(12 * gib, ["rocm"])] },
      "rocm",
    );
    assert.equal(large.verdict, "fits");
    const shared = { ...apu, shared_memory_bytes: 16 * gib };
    assert.equal(
      hostFit(entry("sdxl-turbo"), undefined, { memory: memory(32 * gib), gpus: [shared] }, "rocm").verdict,
      "fits",
    );
    const none = hostFit(entry("flux-schnell"), undefined, { memory: memory(32 * gib), gpus: [] }, "cpu");
    assert.deepEqual(
      [none.verdict, none.message],
      ["does_not_fit", "needs a GPU with 22.4 GiB; this machine has none that an engine could use"],
    );
  });

  it("counts shared memory once: layers that are left to the processor take the same memory", async () => {
    const real = realShapes["llama3-70b"];
    assert.ok(real !== undefined);
    const shape = await shapeFrom({ ...real, quantization: "Q4_K_M" }, { words: 8 });
    const gpus = [{ ...apu, shared_memory_bytes: 16 * gib }];
    const small = hostFit(entry("qwen3-8b"), shape, { memory: memory(32 * gib), gpus }, "rocm");
    assert.deepEqual([small.verdict, small.settings], ["does_not_fit", undefined], small.message);
    const large = hostFit(entry("qwen3-8b"), shape, { memory: memory(64 * gib), gpus }, "rocm");
    assert.equal(large.verdict, "fits_with", "half of its layers on the GPU");
    const required = declaredRequirement({ memoryBytes: 24 * gib, gpuBytes: 16 * gib }, apu.id);
    const { budgets } = deviceFor({ memory: memory(32 * gib), gpus }, "rocm");
    const verdict = required && judge(required, budgets);
    assert.deepEqual(
      [verdict?.kind, verdict?.device, verdict?.message],
      [
        "does_not_fit",
        "host",
        "needs 40.0 GiB (16.0 GiB on 0000:c5:00.0, 24.0 GiB on host), which share the machine's memory: engines may take 32.0 GiB of it",
      ],
    );
  });

  it("is unknown where the model's needs are unknown", () => {
    const fit = hostFit(entry("kokoro-82m"), undefined, { memory: memory(32 * gib), gpus: [] }, "cpu");
    assert.deepEqual([fit.verdict, fit.needBytes], ["unknown", undefined]);
  });

  it("knows a model by its lengths about as well as by its header", async () => {
    for (const [name, quantization] of [
      ["qwen3-8b", "Q4_K_M"],
      ["gemma3-4b", "Q4_K_M"],
      ["llama3-8b", "Q8_0"],
    ] as const) {
      const real = realShapes[name];
      assert.ok(real !== undefined);
      const whole = await shapeFrom({ ...real, quantization }, { words: 8 });
      const { layers, width, headWidth, vocabulary, isTied } = real;
      const [heads, keyValueHeads, feedForward] = [
        Number(real.heads),
        Number(real.keyValueHeads),
        Number(real.feedForward),
      ];
      const lengths = {
        architecture: "x",
        layers,
        width,
        heads,
        keyValueHeads,
        headWidth,
        feedForward,
        vocabulary,
        isTied,
      };
      const windowed = real.window === undefined ? {} : { window: { tokens: real.window, every: 6 } };
      const size = whole.layers.reduce(
        (sum, { bytes }) => sum + bytes,
        whole.lookupBytes + (isTied ? 0 : whole.outputBytes),
      );
      const made = catalogModelShape({ ...lengths, ...windowed, isEncoder: false }, size, 32_768);
      const settings = {
        ...serverDefaults,
        contextTokens: 16_384,
        places: 1,
        gpus: [{ id: "g", share: 1, backend: "cuda" }],
      } as const;
      const [exact, near] = [estimate(whole, settings).gpus[0], estimate(made, settings).gpus[0]];
      assert.ok(exact !== undefined && near !== undefined);
      assert.ok(Math.abs(sumOf(near) / sumOf(exact) - 1) < 0.1, `${name}: ${sumOf(near) / sumOf(exact)}`);
    }
  });
});
