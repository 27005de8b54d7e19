import assert from "node:assert/strict";
import { it } from "node:test";
import type { Workload } from "../../src/api/workload.ts";
import { devicesOf } from "../../src/engines/placement.ts";
import { coresOf } from "../../src/operator/observe/hardware.ts";
import { recorded, smi } from "../hardware/h100-machine.ts";
import { probed, type Tree } from "../hardware/tree.ts";
import { perToken } from "../support/context-cost.ts";
import { Site } from "./site.ts";

const cpuinfo = [...Array(16).keys()]
  .map(
    (id) =>
      `processor\t: ${id}\nmodel name\t: Example\nphysical id\t: 0\ncore id\t\t: ${id}\nflags\t\t: avx2 avx512f\n`,
  )
  .join("\n");

/** The recorded machine: 16 processors of a core each, 125.9 GiB. */
const sixteen: Tree = {
  "/proc/cpuinfo": cpuinfo,
  "/proc/meminfo": "MemTotal:       131981020 kB\nMemAvailable:   129000000 kB\nSwapTotal:             0 kB\n",
  "/proc/self/status": "Cpus_allowed_list:\t0-15\n",
};

it("a slot whose manifest has a model and nothing else gets these settings on the recorded H100", async () => {
  const facts = await probed({ tree: { ...recorded, ...sixteen }, smi: smi() });
  await using site = new Site();
  site.machine = {
    devicesFor: () => devicesOf(facts),
    memory: () => ({
      hostBytes: facts.memory.usable_bytes ?? undefined,
      gpuBytes: facts.gpus[0]?.memory_usable_bytes ?? undefined,
    }),
    cores: () => coresOf(facts.cpu),
    watch: () => ({ [Symbol.dispose]: () => undefined }),
  };
  let started: Workload | undefined;
  site.contexts = { ...site.contexts, prepared: async (workload) => (started = workload) };
  // As Llama 3 of 8 billion weights, Q4_K_M.
  site.setModel("l8", { contextLength: 131_072, contextCost: perToken(131_072), sizeBytes: 4_915_000_000 });
  await site.run({ primary: { model: { default: "l8" } } }, 3);
  const { decisions } = site.slot("primary").status;
  const told = Object.entries(decisions).map(([name, { value, reason }]) => [name, `${value}: ${reason}`]);
  assert.equal(
    started?.command.join(" "),
    "/opt/llama-server --host 127.0.0.1 --port 8081 --threads 15 --metrics --no-webui --ctx-size 32768 --model /models/l8.gguf --alias l8 --parallel 1 --jinja",
  );
  assert.deepEqual(Object.fromEntries(told), {
    runtime: "process: no container engine answers",
    backend: "cuda: there is an NVIDIA driver",
    contextSize: "32768: of the model's 131072: within a quarter of the GPU's memory",
    promptCacheBytes: "1073741824: what is enough for a few long prompts",
    gpuLayers: "all: the backend is cuda, and what does not fit is refused: model.spill",
    parallel: "1: each further place takes a context of its own: model.parallel",
    flashAttention: "auto: the engine uses it where its backend can",
    cacheTypes: "f16: the engine's own, without loss: -ctk and -ctv in args name smaller ones",
    threads: "15: 16 cores, less one; on a GPU it shares them with none",
    modelFingerprint: "1:1: size and time of the file that was loaded",
  });
  // Its `--help` was not read here: what a version may lack is a variable.
  assert.deepEqual(started?.env, {
    LLAMA_ARG_CORS_ORIGINS: "http://berth.invalid",
    LLAMA_ARG_FIT: "off",
    LLAMA_ARG_CACHE_RAM: "1024",
    HOST: "127.0.0.1",
    PORT: "8081",
    SLOT: "primary",
    ORDINAL: "0",
    MODEL: "l8",
    MODEL_PATH: "/models/l8.gguf",
  });
});
