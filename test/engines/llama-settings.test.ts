import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput, Placement, ServerFacts } from "../../src/engines/engine.ts";
import { llama } from "../../src/engines/llama.ts";
import { serverFacts } from "../../src/engines/server-facts.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { perToken } from "../support/context-cost.ts";
import { input, model, workload } from "./fixture.ts";

const gibibyte = 1024 ** 3;
/** A machine like the recorded one: 125.9 GiB, and a GPU of which CUDA has 81079 MiB. */
const memory = { hostBytes: 135_148_564_480, gpuBytes: 81_079 * 1024 ** 2 };
const help =
  "-b, --batch-size N\n-ub, --ubatch-size N\n-c, --ctx-size N\n-fit, --fit [on|off]\n-cram, --cache-ram N\n-kvu, --kv-unified\n--kv-unified-per-slot N\n - 4: trace (more info)\n-lv, --log-verbosity N\n";
const facts = serverFacts(help, undefined);
/** 32 layers, 8 heads of 128 + 128: 128 KiB a token, as Llama 3 of 8 billion weights. */
const big = model({ contextLength: 131_072, contextCost: perToken(131_072), sizeBytes: 4_900_000_000 });

function given(
  spec: SlotSpecInput,
  backend: Placement["backend"] = "cuda",
  server: ServerFacts | undefined = facts,
  runtime: Placement["runtime"] = "process",
): EngineInput {
  return input({
    spec: { model: { default: "tiny" }, ...spec },
    model: big,
    host: { llamaServer: "/opt/llama-server", ...(server === undefined ? {} : { server }), embedded: undefined },
    placement: {
      ...runningIn(runtime),
      backend,
      memory,
      images: runtime === "process" ? {} : { llama: { [backend]: { image: "llama:1" } } },
      lock: {},
    },
  });
}

const head = [
  "/opt/llama-server",
  "--host",
  "127.0.0.1",
  "--port",
  "8081",
  "--threads",
  "1",
  "--metrics",
  "--no-webui",
];
const tail = ["--model", "/models/tiny.gguf", "--alias", "tiny"];
const chat = (parallel: number): string[] => ["--parallel", String(parallel), "--jinja"];
const gpu = ["--fit", "off", "--cache-ram", "1024"];
const trace = ["--log-verbosity", "4"];
const tiny = { default: "tiny" };

const lines: readonly [string, EngineInput, readonly string[]][] = [
  ["on a GPU", given({}), [...head, "--ctx-size", "32768", ...gpu, ...trace, ...tail, ...chat(1)]],
  [
    "on the processor nothing can spill, and a client that has left is noticed after a few tokens",
    given({ backend: "cpu" }, "cpu"),
    [...head, "--ctx-size", "32768", "--batch-size", "256", "--cache-ram", "1024", ...trace, ...tail, ...chat(1)],
  ],
  [
    "an image is one batch on the processor too",
    given({ backend: "cpu", model: { ...tiny, projector: "/models/mmproj.gguf" } }, "cpu"),
    [
      ...head,
      "--ctx-size",
      "32768",
      "--cache-ram",
      "1024",
      ...trace,
      ...tail,
      ...chat(1),
      "--mmproj",
      "/models/mmproj.gguf",
    ],
  ],
  [
    "a text whose vector is wanted is one batch, and no prompts are kept",
    given({ backend: "cpu", capabilities: ["embeddings"] }, "cpu"),
    [
      ...head,
      "--ctx-size",
      "32768",
      "--batch-size",
      "8192",
      "--ubatch-size",
      "8192",
      "--cache-ram",
      "0",
      ...trace,
      ...tail,
      "--parallel",
      "1",
      "--embedding",
      "--pooling",
      "mean",
    ],
  ],
  [
    "a text whose last token's vector is wanted may be several batches",
    { ...given({ capabilities: ["embeddings"] }), model: { ...big, pooling: "last" } },
    [
      ...head,
      "--ctx-size",
      "32768",
      "--fit",
      "off",
      "--cache-ram",
      "0",
      ...trace,
      ...tail,
      "--parallel",
      "1",
      "--embedding",
      "--pooling",
      "last",
    ],
  ],
  [
    "spilling allowed",
    given({ model: { ...tiny, spill: "allow" } }),
    [...head, "--ctx-size", "32768", "--cache-ram", "1024", ...trace, ...tail, ...chat(1)],
  ],
  [
    "a prompt cache of its own, in whole MiB",
    given({ model: { ...tiny, promptCacheBytes: 1_500_000, contextSize: 4096 } }),
    [...head, "--fit", "off", "--cache-ram", "2", ...trace, ...tail, "--ctx-size", "4096", ...chat(1)],
  ],
  [
    "no prompt cache",
    given({ model: { ...tiny, promptCacheBytes: 0, contextSize: 4096 } }),
    [...head, "--fit", "off", "--cache-ram", "0", ...trace, ...tail, "--ctx-size", "4096", ...chat(1)],
  ],
  [
    "many places share one cache, and each has what the manifest says",
    given({ model: { ...tiny, parallel: 64, contextSize: 1024 } }),
    [
      ...head,
      ...gpu,
      "--kv-unified",
      "--kv-unified-per-slot",
      "1024",
      ...trace,
      ...tail,
      "--ctx-size",
      "65536",
      ...chat(64),
    ],
  ],
  [
    "sixteen places stay as they are",
    given({ model: { ...tiny, parallel: 16, contextSize: 1024 } }),
    [...head, ...gpu, ...trace, ...tail, "--ctx-size", "16384", ...chat(16)],
  ],
  [
    "what the manifest's arguments say is said once",
    given({ args: ["-fit", "on", "-cram", "7", "-c", "512", "-lv", "3"] }),
    [...head, ...tail, ...chat(1), "-fit", "on", "-cram", "7", "-c", "512", "-lv", "3"],
  ],
  [
    "what the manifest's environment says is not said at all",
    given({ env: { LLAMA_ARG_FIT: "on", LLAMA_ARG_CACHE_RAM: "7", LLAMA_ARG_CTX_SIZE: "9" } }),
    [...head, ...trace, ...tail, ...chat(1)],
  ],
  [
    "a version that has none of these flags",
    given({ model: { ...tiny, parallel: 64 } }, "cuda", serverFacts("--ctx-size N", undefined)),
    [...head, "--ctx-size", String(2048 * 2 * 64), ...tail, ...chat(64)],
  ],
];

describe("the whole line of llama-server", () => {
  for (const [name, slot, line] of lines) it(name, () => assert.deepEqual(workload(slot).command, line));

  it("restarts nothing that runs under an earlier version of Berth", () => {
    const { hash } = workload(given({}));
    assert.equal(workload(given({}, "cuda", serverFacts("--ctx-size", undefined))).hash, hash);
    assert.equal(workload(given({}, "cpu")).hash, hash);
    assert.notEqual(workload(given({ model: { ...tiny, spill: "allow" } })).hash, hash);
    assert.notEqual(workload(given({ model: { ...tiny, promptCacheBytes: 0 } })).hash, hash);
  });

  it("where a program prints no help, settings are variables: an old version ignores these, and refuses unknown flags", () => {
    for (const help of ["usage: wrapper", undefined]) {
      const { command, env } = workload(given({}, "cuda", serverFacts(help, undefined)));
      assert.deepEqual(command, [...head, "--ctx-size", "32768", ...tail, ...chat(1)]);
      const settings = Object.entries(env).filter(([name]) => /^LLAMA_ARG_(FIT|CACHE_RAM|LOG)/.test(name));
      // Level 4 of the log once held prompts: no version is asked for it that may be such.
      assert.deepEqual(Object.fromEntries(settings), { LLAMA_ARG_FIT: "off", LLAMA_ARG_CACHE_RAM: "1024" });
    }
  });

  it("in a container they are variables, which a version that lacks them passes over", () => {
    const { command, env, container } = workload(
      given({ model: { ...tiny, parallel: 32 } }, "cuda", undefined, "docker"),
    );
    assert.ok(!command.some((word) => ["--fit", "--cache-ram", "--kv-unified", "--log-verbosity"].includes(word)));
    const {
      HOST: _host,
      PORT: _port,
      SLOT: _slot,
      MODEL: _model,
      MODEL_PATH: _path,
      ORDINAL: _ordinal,
      ...settings
    } = env;
    assert.deepEqual(settings, {
      LLAMA_ARG_CORS_ORIGINS: "http://berth.invalid",
      LLAMA_ARG_FIT: "off",
      LLAMA_ARG_CACHE_RAM: "1024",
      LLAMA_ARG_KV_UNIFIED: "1",
      LLAMA_ARG_LOG_VERBOSITY: "4",
    });
    assert.equal(container?.gpus, "all");
  });
});

describe('backend = "cpu"', () => {
  const hidden = {
    CUDA_VISIBLE_DEVICES: "",
    HIP_VISIBLE_DEVICES: "-1",
    ROCR_VISIBLE_DEVICES: "",
    GGML_VK_VISIBLE_DEVICES: "",
  };
  const gpuVariables = (slot: EngineInput): unknown =>
    Object.fromEntries(Object.entries(workload(slot).env).filter(([name]) => name.endsWith("VISIBLE_DEVICES")));

  it("keeps every engine off every GPU", () => {
    assert.deepEqual(gpuVariables(given({ backend: "cpu" }, "cpu")), hidden);
    assert.deepEqual(gpuVariables(given({}, "cpu")), hidden);
    assert.deepEqual(gpuVariables(given({ backend: "cpu", command: ["serve"] }, "cpu")), hidden);
    assert.deepEqual(gpuVariables(given({ engine: "custom", backend: "cpu", command: ["serve"] }, "cpu")), hidden);
  });

  it("does not hide GPUs from a slot with a GPU backend, nor from a manifest's own command", () => {
    for (const slot of [
      given({}, "cuda"),
      given({ command: ["serve"] }, "cpu"),
      given({ engine: "custom", command: ["serve"] }, "cpu"),
    ])
      assert.deepEqual(gpuVariables(slot), {});
  });

  it("lets the manifest's own variable win", () => {
    const slot = given({ backend: "cpu", env: { CUDA_VISIBLE_DEVICES: "1" } }, "cpu");
    assert.deepEqual(gpuVariables(slot), { ...hidden, CUDA_VISIBLE_DEVICES: "1" });
  });

  it("asks for no device in a container, where one may be the daemon's default", () => {
    const slot = given({ backend: "cpu", resources: { gpus: 1 } }, "cpu", undefined, "docker");
    assert.equal(workload(slot).container?.gpus, undefined);
    assert.deepEqual(workload(slot).container?.devices, []);
    assert.deepEqual(gpuVariables(slot), { ...hidden, NVIDIA_VISIBLE_DEVICES: "void" });
  });
});

describe("the context of a slot without context_size", () => {
  const derived = (spec: SlotSpecInput, record = big, place: Placement["memory"] = memory): unknown => {
    const slot = given(spec);
    const found = llama.derived({ ...slot, model: record, placement: { ...slot.placement, memory: place } });
    return found["contextSize"];
  };
  const quarter = "within a quarter of the GPU's memory";

  it("never takes the whole memory of the card", () => {
    assert.deepEqual(derived({}), { value: "32768", reason: `of the model's 131072: ${quarter}` });
    const eight = `of the model's 131072 for each of 8 requests at once: ${quarter}`;
    assert.deepEqual(derived({ model: { ...tiny, parallel: 8 } }), { value: "16384", reason: eight });
  });
  it("is the model's own where that is less", () => {
    assert.deepEqual(derived({}, model({ contextLength: 512, contextCost: perToken(8) })), {
      value: "512",
      reason: `of the model's 512: ${quarter}`,
    });
  });
  it("leaves room for weights that nearly fill the card", () => {
    const wide = model({ contextLength: 131_072, contextCost: perToken(131_072), sizeBytes: 20 * gibibyte });
    const found = derived({}, wide, { ...memory, gpuBytes: 24 * gibibyte });
    assert.deepEqual(found, { value: "8192", reason: `of the model's 131072: ${quarter}` });
  });
  it("is modest where the memory is not known", () => {
    const found = derived({}, big, { hostBytes: 1, gpuBytes: undefined });
    assert.deepEqual(found, { value: "8192", reason: "the memory is not known; the model's longest is 131072" });
  });
  it("is not derived where the manifest sets it", () => {
    assert.equal(derived({ model: { ...tiny, contextSize: 4096 } }), undefined);
    assert.equal(derived({ args: ["--ctx-size", "1"] }), undefined);
  });
});

describe("the prompt cache without a setting", () => {
  const derived = (hostBytes: number | undefined, spec: SlotSpecInput = {}): unknown => {
    const slot = given(spec);
    const place = { ...slot.placement, memory: { hostBytes, gpuBytes: undefined } };
    return llama.derived({ ...slot, placement: place })["promptCacheBytes"];
  };
  it("is a GiB, less on a small machine or in a small container, and reported with its reason", () => {
    assert.deepEqual(derived(memory.hostBytes), {
      value: String(gibibyte),
      reason: "what is enough for a few long prompts",
    });
    assert.deepEqual(derived(8 * gibibyte), { value: String(gibibyte / 2), reason: "a sixteenth of the memory" });
    assert.deepEqual(derived(memory.hostBytes, { resources: { memoryBytes: 4 * gibibyte } }), {
      value: String(gibibyte / 4),
      reason: "a sixteenth of the memory",
    });
    assert.deepEqual(derived(1, { model: { ...tiny, promptCacheBytes: 5 } }), { value: "5", reason: "the spec" });
  });
});

describe("the facts that a llama-server reports", () => {
  it("names its devices as on the recorded machine", () => {
    const devices = "Available devices:\n  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)\n";
    assert.deepEqual(serverFacts(help, devices).devices, [
      { id: "CUDA0", name: "NVIDIA H100 80GB HBM3", totalBytes: memory.gpuBytes },
    ]);
  });
  it("distinguishes an empty list from an invalid one", () => {
    assert.deepEqual(serverFacts(help, "Available devices:\n  (none)\n").devices, []);
    assert.deepEqual(serverFacts(help, "Available devices:\n").devices, []);
    assert.equal(serverFacts(help, "version: 1\n").devices, undefined);
    assert.equal(serverFacts(undefined, undefined).devices, undefined);
  });
});
