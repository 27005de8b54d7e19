import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { engineEstimate } from "../../../src/models/fit/engine-figures.ts";
import { estimate, sumOf } from "../../../src/models/fit/estimate.ts";
import { settingsOf } from "../../../src/models/fit/flags.ts";
import type { ModelShape } from "../../../src/models/fit/shape.ts";
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

const read = new Map<string, ModelShape>();

async function shapeIn({ shape: name = "", quant }: Row): Promise<ModelShape> {
  const real = realShapes[name];
  assert.ok(real !== undefined);
  const known = read.get(`${name} ${quant}`);
  const shape = known ?? (await shapeFrom({ ...real, quantization: quantizationOf(quant) }, { words: 8 }));
  read.set(`${name} ${quant}`, shape);
  return shape;
}

async function loadOf(row: Row, hasGpu = true) {
  const shape = await shapeIn(row);
  const { contextLength } = shape;
  const gpus = hasGpu ? [{ id: "CUDA0", share: 1, backend: "cuda" as const }] : [];
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

      // From the print of the engine's own allocator, which has whole MiB. This says nothing of how well it meets what
      // it then takes.
      const whole = (...names: string[]): string => names.map((name) => Math.floor(Number(row[name]))).join(" ");
      const print = [
        `CUDA0 ${whole("gpu_model_mib", "gpu_kv_mib", "gpu_compute_mib")}`,
        `Host 0 ${whole("host_kv_mib", "host_compute_mib")}`,
      ].join("\n");
      const [printed] = engineEstimate(print, shape, settings)?.gpus ?? [];
      assert.ok(printed !== undefined);
      near("printed buffers", sumOf(printed) - printed.driver, "gpu_buffers_mib", 0.03, 0.03);
    });
  }
});

/** The loads of the same series that the table does not have: not all of its columns hold for them. */
const llama = { shape: "llama3-8b", quant: "Q4_K_M" };
const qwen = { shape: "qwen3-0.6b", quant: "Q8_0" };
const server = "--ctx-size 8192 --parallel 1";
const withoutGpu = [
  { id: "l8-dev-none", ...llama, flags: server, host: [4685.3 + 3204, 1024, 124.01] },
  { id: "h-no-device-env", ...llama, flags: server, host: [4685.3 + 3204, 1024, 124.01] },
  { id: "h-dev-none-ngl0", ...qwen, flags: `${server} --n-gpu-layers 0`, host: [604.15, 896, 34.01] },
] as const;
/** The engine chose the context or the layers itself; the flags here are its choice. `gpu`: buffers, the whole process. */
const chosenByEngine = [
  { id: "l8-noctx-par8-fit4096", flags: "--ctx-size 573440 --parallel 8 --n-gpu-layers 99", gpu: [76_261.5, 76_850] },
  { id: "l8-toobig-auto", flags: "--ctx-size 655360 --parallel 5 --n-gpu-layers 29", gpu: [78_267.34, 78_854] },
  { id: "h-l8-backend-sampling", flags: "--ctx-size 16384 --parallel 4 --n-gpu-layers 99 -bs", gpu: [6563.5, 7154] },
] as const;
/** Refused by the driver: "allocating 81920.00 MiB on device 0: cudaMalloc failed: out of memory". */
const refused = [
  { id: "l8-toobig-ngl99", flags: "--ctx-size 655360 --parallel 5 --n-gpu-layers 99" },
  { id: "h-toobig-fit-off", flags: "--ctx-size 655360 --parallel 5 --fit off" },
] as const;

/** Of the card that was measured. */
const cardBytes = 81_559 * mebibyte;

function near(what: string, estimatedBytes: number, toldMib: number): void {
  const ratio = estimatedBytes / mebibyte / toldMib - 1;
  assert.ok(ratio <= 0.1 && ratio >= -0.03, `${what}: ${estimatedBytes / mebibyte} MiB for ${toldMib} MiB`);
}

describe("the estimate of the other loads of that series", () => {
  for (const { host: told, ...row } of withoutGpu)
    it(`is what the engine reports without a GPU: ${row.id}`, async () => {
      const { shape, settings } = await loadOf(row, false);
      const { host, gpus } = estimate(shape, settings);
      assert.deepEqual(gpus, []);
      const found = [host.weights, host.cache, host.compute];
      for (const [index, bytes] of found.entries()) near(String(index), bytes, told[index] ?? Number.NaN);
    });

  for (const { gpu: told, ...row } of chosenByEngine)
    it(`is what the engine reports with the settings that it chose: ${row.id}`, async () => {
      const { shape, settings } = await loadOf({ ...llama, ...row });
      const [gpu] = estimate(shape, settings).gpus;
      assert.ok(gpu !== undefined);
      near("buffers", sumOf(gpu) - gpu.driver, told[0]);
      near("the whole process", sumOf(gpu), told[1]);
    });

  for (const row of refused)
    it(`does not fit where the driver refused the cache: ${row.id}`, async () => {
      const { shape, settings } = await loadOf({ ...llama, ...row });
      const [gpu] = estimate(shape, settings).gpus;
      assert.ok(gpu !== undefined);
      assert.equal(gpu.cache, 81_920 * mebibyte);
      assert.ok(sumOf(gpu) > cardBytes);
    });
});
