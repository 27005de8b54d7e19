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

/** On a machine with that memory. */
function placed(slot: EngineInput, place: NonNullable<Placement["memory"]>): EngineInput {
  return { ...slot, placement: { ...slot.placement, memory: place } };
}

const head = "/opt/llama-server --host 127.0.0.1 --port 8081 --threads 1 --metrics --no-webui";
const log = "--log-verbosity 4";
const file = "--model /models/tiny.gguf --alias tiny";
const chat = (parallel: number): string => `--parallel ${parallel} --jinja`;
const embedding = "--parallel 1 --embedding --pooling";
const tiny = { default: "tiny" };
const embeddings = { capabilities: ["embeddings"] } satisfies SlotSpecInput;
const projector = "/models/mmproj.gguf";

const lines: readonly [string, EngineInput, rest: string][] = [
  ["on a GPU", given({}), `--ctx-size 32768 --fit off --cache-ram 1024 ${log} ${file} ${chat(1)}`],
  [
    "on the processor nothing can spill, and a client that has left is noticed after a few tokens",
    given({ backend: "cpu" }, "cpu"),
    `--ctx-size 32768 --batch-size 256 --cache-ram 1024 ${log} ${file} ${chat(1)}`,
  ],
  [
    "an image is one batch on the processor too",
    given({ backend: "cpu", model: { ...tiny, projector } }, "cpu"),
    `--ctx-size 32768 --cache-ram 1024 ${log} ${file} ${chat(1)} --mmproj ${projector}`,
  ],
  [
    "a text whose vector is wanted is one batch, and no prompts are kept",
    given({ backend: "cpu", ...embeddings }, "cpu"),
    `--ctx-size 32768 --batch-size 8192 --ubatch-size 8192 --cache-ram 0 ${log} ${file} ${embedding} mean`,
  ],
  [
    "a text whose last token's vector is wanted may be several batches",
    { ...given(embeddings), model: { ...big, pooling: "last" } },
    `--ctx-size 32768 --fit off --cache-ram 0 ${log} ${file} ${embedding} last`,
  ],
  [
    "spilling allowed",
    given({ model: { ...tiny, spill: "allow" } }),
    `--ctx-size 32768 --cache-ram 1024 ${log} ${file} ${chat(1)}`,
  ],
  [
    "a prompt cache of its own, in whole MiB",
    given({ model: { ...tiny, promptCacheBytes: 1_500_000, contextSize: 4096 } }),
    `--fit off --cache-ram 2 ${log} ${file} --ctx-size 4096 ${chat(1)}`,
  ],
  [
    "no prompt cache",
    given({ model: { ...tiny, promptCacheBytes: 0, contextSize: 4096 } }),
    `--fit off --cache-ram 0 ${log} ${file} --ctx-size 4096 ${chat(1)}`,
  ],
  [
    "many places share one cache, and each has what the manifest says",
    given({ model: { ...tiny, parallel: 64, contextSize: 1024 } }),
    `--fit off --cache-ram 1024 --kv-unified --kv-unified-per-slot 1024 ${log} ${file} --ctx-size 65536 ${chat(64)}`,
  ],
  [
    "sixteen places stay as they are",
    given({ model: { ...tiny, parallel: 16, contextSize: 1024 } }),
    `--fit off --cache-ram 1024 ${log} ${file} --ctx-size 16384 ${chat(16)}`,
  ],
  [
    "what the manifest's arguments say is said once",
    given({ args: ["-fit", "on", "-cram", "7", "-c", "512", "-lv", "3"] }),
    `${file} ${chat(1)} -fit on -cram 7 -c 512 -lv 3`,
  ],
  [
    "what the manifest's environment says is not said at all",
    given({ env: { LLAMA_ARG_FIT: "on", LLAMA_ARG_CACHE_RAM: "7", LLAMA_ARG_CTX_SIZE: "9" } }),
    `${log} ${file} ${chat(1)}`,
  ],
  [
    "a version that has none of these flags",
    given({ model: { ...tiny, parallel: 64 } }, "cuda", serverFacts("--ctx-size N", undefined)),
    `--ctx-size ${2048 * 2 * 64} ${file} ${chat(64)}`,
  ],
];

describe("the whole line of llama-server", () => {
  for (const [name, slot, line] of lines)
    it(name, () => assert.equal(workload(slot).command.join(" "), `${head} ${line}`));

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
      assert.equal(command.join(" "), `${head} --ctx-size 32768 ${file} ${chat(1)}`);
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
    const settings = Object.entries(env).filter(([name]) => name.startsWith("LLAMA_ARG"));
    assert.deepEqual(Object.fromEntries(settings), {
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

  const custom = { engine: "custom", command: ["serve"] } satisfies SlotSpecInput;
  const table: readonly [string, EngineInput, hides: object][] = [
    ["keeps llama-server off every GPU", given({ backend: "cpu" }, "cpu"), hidden],
    ["also where it is derived", given({}, "cpu"), hidden],
    ["and a manifest's own command", given({ backend: "cpu", command: ["serve"] }, "cpu"), hidden],
    ["and a custom engine", given({ ...custom, backend: "cpu" }, "cpu"), hidden],
    ["hides no GPU from a slot with a GPU backend", given({}, "cuda"), {}],
    ["nor from a manifest's own command, where it is derived", given({ command: ["serve"] }, "cpu"), {}],
    ["nor from a custom engine, where it is derived", given(custom, "cpu"), {}],
    [
      "lets the manifest's own variable win",
      given({ backend: "cpu", env: { CUDA_VISIBLE_DEVICES: "1" } }, "cpu"),
      { ...hidden, CUDA_VISIBLE_DEVICES: "1" },
    ],
  ];
  for (const [name, slot, hides] of table) it(name, () => assert.deepEqual(gpuVariables(slot), hides));

  it("asks for no device in a container, where one may be the daemon's default", () => {
    const slot = given({ backend: "cpu", resources: { gpus: 1 } }, "cpu", undefined, "docker");
    assert.equal(workload(slot).container?.gpus, undefined);
    assert.deepEqual(workload(slot).container?.devices, []);
    assert.deepEqual(gpuVariables(slot), { ...hidden, NVIDIA_VISIBLE_DEVICES: "void" });
  });
});

describe("the context of a slot without context_size", () => {
  const quarter = "within a quarter of the GPU's memory";
  const wide = model({ contextLength: 131_072, contextCost: perToken(131_072), sizeBytes: 20 * gibibyte });
  const short = model({ contextLength: 512, contextCost: perToken(8) });
  const eight = { model: { ...tiny, parallel: 8 } };
  const unknown = { hostBytes: 1, gpuBytes: undefined };
  const table: readonly [string, EngineInput, value: string | undefined, reason?: string][] = [
    ["never takes the whole memory of the card", given({}), "32768", `of the model's 131072: ${quarter}`],
    [
      "is divided among the requests at once",
      given(eight),
      "16384",
      `of the model's 131072 for each of 8 requests at once: ${quarter}`,
    ],
    ["is the model's own where that is less", { ...given({}), model: short }, "512", `of the model's 512: ${quarter}`],
    [
      "leaves room for weights that nearly fill the card",
      placed({ ...given({}), model: wide }, { ...memory, gpuBytes: 24 * gibibyte }),
      "8192",
      `of the model's 131072: ${quarter}`,
    ],
    [
      "is modest where the memory is not known",
      placed(given({}), unknown),
      "8192",
      "the memory is not known; the model's longest is 131072",
    ],
    ["is not derived where the manifest sets it", given({ model: { ...tiny, contextSize: 4096 } }), undefined],
    ["nor where its arguments do", given({ args: ["--ctx-size", "1"] }), undefined],
  ];
  for (const [name, slot, value, reason] of table)
    it(name, () => {
      const expected = value === undefined ? undefined : { value, reason };
      assert.deepEqual(llama.derived(slot)["contextSize"], expected);
    });
});

describe("the prompt cache without a setting", () => {
  const sixteenth = "a sixteenth of the memory";
  const host = (hostBytes: number | undefined) => ({ hostBytes, gpuBytes: undefined });
  const limited = { resources: { memoryBytes: 4 * gibibyte } };
  const table: readonly [string, EngineInput, value: number, reason: string][] = [
    ["is a GiB", placed(given({}), host(memory.hostBytes)), gibibyte, "what is enough for a few long prompts"],
    ["is less on a small machine", placed(given({}), host(8 * gibibyte)), gibibyte / 2, sixteenth],
    ["is less in a small container", placed(given(limited), host(memory.hostBytes)), gibibyte / 4, sixteenth],
    ["is the manifest's", placed(given({ model: { ...tiny, promptCacheBytes: 5 } }), host(1)), 5, "the spec"],
  ];
  for (const [name, slot, value, reason] of table)
    it(name, () => assert.deepEqual(llama.derived(slot)["promptCacheBytes"], { value: String(value), reason }));
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
