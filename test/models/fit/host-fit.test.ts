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
import type { Quantization } from "../../support/shaped-model.ts";
import { realShapes } from "../../support/shapes.ts";

const gib = 1024 ** 3;
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

type Machine = Parameters<typeof hostFit>[2];
const machine = (gibibytes: number, ...gpus: Gpu[]): Machine => ({ memory: memory(gibibytes * gib), gpus });
const shared = { ...apu, shared_memory_bytes: 16 * gib };

async function realShape(name: string, quantization: Quantization) {
  const real = realShapes[name];
  assert.ok(real !== undefined);
  return { real, shape: await shapeFrom({ ...real, quantization }, { words: 8 }) };
}

describe("the catalogue's verdict", async () => {
  const catalog = new Map((await findCatalog()).map((each) => [each.metadata.name, each]));
  const entry = (name: string): CatalogEntry => catalog.get(name) ?? assert.fail(name);

  it("says that a model fits, with the sum and its evidence", () => {
    const fit = hostFit(entry("qwen3-8b"), undefined, machine(64, card(24 * gib)), "cuda");
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
    const with8 = hostFit(entry("qwen3-8b"), undefined, machine(64, card(8 * gib)), "cuda");
    assert.deepEqual([with8.verdict, with8.settings], ["fits_with", { contextSize: 16_384 }]);
    const { verdict, settings } = hostFit(entry("qwen3-8b"), undefined, machine(64, card(4 * gib)), "cuda");
    assert.deepEqual([verdict, settings?.contextSize], ["fits_with", 2048]);
    const layers = settings?.gpuLayers ?? 0;
    assert.ok(layers > 15 && layers < 30, `${layers}`);
  });

  it("says how many bytes are missing where the model does not fit", () => {
    const fit = hostFit(entry("qwen3-8b"), undefined, machine(4), "cpu");
    assert.equal(fit.verdict, "does_not_fit");
    assert.match(fit.message, /on host, which has 4\.0 GiB \(the machine's memory\): \d.* too much$/);
    assert.ok((fit.needBytes ?? 0) > (fit.budgetBytes ?? 0));
  });

  it("follows from the header of a model that is here, not from the catalogue, and the two agree", async () => {
    const { shape } = await realShape("qwen3-0.6b", "Q8_0");
    const fit = hostFit(entry("qwen3-0.6b"), shape, machine(16), "cpu");
    assert.ok(fit.inputs.includes("the header of the model's file"));
    const catalogued = hostFit(entry("qwen3-0.6b"), undefined, machine(16), "cpu");
    assert.ok(Math.abs((catalogued.needBytes ?? 0) / (fit.needBytes ?? 1) - 1) < 0.05);
  });

  it("follows from an image model's minimum, on a card, on shared memory, and without a GPU", () => {
    const small = "needs 7.5 GiB (declared) on 0000:01:00.0, which has 6.0 GiB (its own memory): 1.5 GiB too much";
    const none = "needs a GPU with 22.4 GiB; this machine has none that an engine could use";
    for (const [name, gpus, verdict, message] of [
      ["sdxl-turbo", [card(6 * gib)], "does_not_fit", small],
      ["sdxl-turbo", [card(12 * gib, ["rocm"])], "fits"],
      ["sdxl-turbo", [shared], "fits"],
      ["flux-schnell", [], "does_not_fit", none],
    ] as const) {
      const backend = gpus.length === 0 ? "cpu" : "rocm";
      const fit = hostFit(entry(name), undefined, machine(32, ...gpus), backend);
      assert.deepEqual([fit.verdict, fit.message], [verdict, message ?? fit.message]);
    }
  });

  it("counts shared memory once: layers that are left to the processor take the same memory", async () => {
    const { shape } = await realShape("llama3-70b", "Q4_K_M");
    const small = hostFit(entry("qwen3-8b"), shape, machine(32, shared), "rocm");
    assert.deepEqual([small.verdict, small.settings], ["does_not_fit", undefined], small.message);
    const large = hostFit(entry("qwen3-8b"), shape, machine(64, shared), "rocm");
    assert.equal(large.verdict, "fits_with", "half of its layers on the GPU");
    const required = declaredRequirement({ memoryBytes: 24 * gib, gpuBytes: 16 * gib }, apu.id);
    const { budgets } = deviceFor(machine(32, shared), "rocm");
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
    const fit = hostFit(entry("kokoro-82m"), undefined, machine(32), "cpu");
    assert.deepEqual([fit.verdict, fit.needBytes], ["unknown", undefined]);
  });

  for (const [name, quantization] of [
    ["qwen3-8b", "Q4_K_M"],
    ["gemma3-4b", "Q4_K_M"],
    ["llama3-8b", "Q8_0"],
  ] as const) {
    it(`knows a model by its lengths about as well as by its header: ${name}`, async () => {
      const { real, shape: whole } = await realShape(name, quantization);
      const { layers, width, headWidth, vocabulary, isTied } = real;
      const counts = {
        heads: Number(real.heads),
        keyValueHeads: Number(real.keyValueHeads),
        feedForward: Number(real.feedForward),
      };
      const lengths = { architecture: "x", layers, width, headWidth, vocabulary, isTied, isEncoder: false, ...counts };
      const windowed = real.window === undefined ? {} : { window: { tokens: real.window, every: 6 } };
      const outside = whole.lookupBytes + (isTied ? 0 : whole.outputBytes);
      const size = whole.layers.reduce((sum, { bytes }) => sum + bytes, outside);
      const made = catalogModelShape({ ...lengths, ...windowed }, size, 32_768);
      const gpus = [{ id: "g", share: 1, backend: "cuda" }] as const;
      const settings = { ...serverDefaults, contextTokens: 16_384, places: 1, gpus };
      const [exact, near] = [whole, made].map((shape) => estimate(shape, settings).gpus[0]);
      assert.ok(exact !== undefined && near !== undefined);
      assert.ok(Math.abs(sumOf(near) / sumOf(exact) - 1) < 0.1, `${sumOf(near) / sumOf(exact)}`);
    });
  }
});
