import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { engineEstimate } from "../../../src/models/fit/engine-figures.ts";
import { estimate, sumOf } from "../../../src/models/fit/estimate.ts";
import { settingsOf } from "../../../src/models/fit/flags.ts";
import { shapeFrom } from "../../support/shape-source.ts";
import { realShapes } from "../../support/shapes.ts";
import type { Quantization } from "../../support/shaped-model.ts";

const mebibyte = 1024 ** 2;

/** What llama.cpp and nvidia-smi said of each load on an H100 that the estimate may be asked about, in MiB. */
async function rows(): Promise<readonly Row[]> {
  const text = await readFile(new URL("../../fixtures/fit-h100.csv", import.meta.url), "utf8");
  const [head = "", ...lines] = text.trim().split("\n");
  const names = head.split(",");
  return lines.map((line) => Object.fromEntries(line.split(",").map((value, index) => [names[index] ?? "", value])));
}

function quantizationOf(text: string | undefined): Quantization {
  const found = (["F16", "Q4_0", "Q8_0", "Q4_K_M"] as const).find((known) => known === text);
  assert.ok(found !== undefined, text);
  return found;
}

type Row = Readonly<Record<string, string>>;

async function loadOf(row: Row) {
  const real = realShapes[row["shape"] ?? ""];
  assert.ok(real !== undefined);
  const shape = await shapeFrom({ ...real, quantization: quantizationOf(row["quant"]) }, { words: 8 });
  const { contextLength } = shape;
  const gpus = [{ id: "CUDA0", share: 1, backend: "cuda" as const }];
  return {
    shape,
    settings: settingsOf((row["flags"] ?? "").split(" "), {}, { contextLength, gpus, projectorBytes: 0 }),
  };
}

/** Compares bytes with a figure of the row; `over` and `under` are the most that they may be above and below it. */
function nearIn(row: Row) {
  return (what: string, estimated: number, name: string, over = 0.1, under = 0.03): void => {
    const told = Number(row[name] ?? "") * mebibyte;
    const ratio = told === 0 ? estimated : estimated / told - 1;
    assert.ok(ratio <= over && ratio >= -under, `${what}: ${estimated / mebibyte} MiB for ${told / mebibyte} MiB`);
  };
}

describe("the estimate of a load on an H100", async () => {
  for (const row of await rows()) {
    it(`is what the engine reports: ${row["id"] ?? ""}, ${row["shape"] ?? ""} ${row["quant"] ?? ""} ${row["flags"] ?? ""}`, async () => {
      const { shape, settings } = await loadOf(row);
      const { gpus, host } = estimate(shape, settings);
      const [gpu] = gpus;
      assert.ok(gpu !== undefined);
      const near = nearIn(row);
      near("weights", gpu.weights, "gpu_model_mib", 0.0005, 0.0005);
      near("cache", gpu.cache, "gpu_kv_mib", 0.0005, 0.0005);
      near("cache of the host", host.cache, "host_kv_mib", 0.0005, 0.0005);
      near("output of the host", host.output, "host_output_mib", 0.05, 0.05);
      // A GPU without a layer of its own works on copies of weights, one or several at once: only their order is known.
      if (gpu.weights > 0) near("buffers", sumOf(gpu) - gpu.driver, "gpu_buffers_mib");
      near("the whole process", sumOf(gpu), "process_mib_after_prompt");
    });

    it(`takes the figures that the engine's own allocator prints: ${row["id"] ?? ""}`, async () => {
      const { shape, settings } = await loadOf(row);
      const whole = (...names: string[]): string => names.map((name) => Math.floor(Number(row[name]))).join(" ");
      const print = [
        `CUDA0 ${whole("gpu_model_mib", "gpu_kv_mib", "gpu_compute_mib")}`,
        `Host 0 ${whole("host_kv_mib", "host_compute_mib")}`,
      ].join("\n");
      const [gpu] = engineEstimate(print, shape, settings)?.gpus ?? [];
      assert.ok(gpu !== undefined);
      // The print has whole MiB; this says nothing of how well llama.cpp's allocator meets what it then takes.
      nearIn(row)("buffers", sumOf(gpu) - gpu.driver, "gpu_buffers_mib", 0.03, 0.03);
    });
  }
});
