import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Backend } from "../../src/api/names.ts";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { Container } from "../../src/api/workload.ts";
import type { EngineInput } from "../../src/engines/engine.ts";
import { engines } from "../../src/engines/registry.ts";
import { input, model, refusal, workload } from "./fixture.ts";
import { plainContainer } from "../support/container.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";

const pinned = `x@sha256:${"1".repeat(64)}`;
const digest = (digit: string): string => `sha256:${digit.repeat(64)}`;
const images = {
  llama: {
    cpu: { image: "ggml/llama.cpp:server", digest: digest("a") },
    vulkan: { image: "ggml/llama.cpp:server-vulkan", digest: digest("b") },
    rocm: { image: "ggml/llama.cpp:server-rocm", digest: digest("c") },
    cuda: { image: "ggml/llama.cpp:server-cuda", digest: digest("d") },
  },
  stt: { cpu: { image: "ggml/whisper.cpp:main" } },
  tts: { cpu: { image: "kokoro-cpu:v0.8.0" } },
};

function contained(
  backend: Exclude<Backend, "auto">,
  spec: SlotSpecInput,
  rest: Partial<Omit<EngineInput, "spec">> = {},
): EngineInput {
  return input({
    placement: { ...runningIn("docker"), backend, images, lock: {} },
    spec,
    ...rest,
  });
}

const modelless = (slot: string) => ({ slot, ref: "k", model: undefined });
const least: Container = { ...plainContainer, image: "", modelFiles: ["/models/tiny.gguf"] };
const line = ["--host", "0.0.0.0", "--port", "8080", "--threads", "1", "--metrics", "--no-webui"];
const tiny = ["--model", "/models/tiny.gguf", "--alias", "tiny", "--parallel", "1", "--jinja"];
const whisper = model({ ref: "base", path: "/models/ggml base.bin", files: ["/models/ggml base.bin"] });

const transcribing = { slot: "stt", ref: "base", model: whisper };

const table: readonly [string, EngineInput, readonly string[], Container][] = [
  ...(["cpu", "vulkan", "rocm", "cuda"] as const).map((backend): (typeof table)[number] => [
    `llama on ${backend}`,
    contained(backend, { backend }),
    [...line, ...tiny],
    {
      ...least,
      image: `ggml/llama.cpp@${images.llama[backend].digest}`,
      devices: { cpu: [], vulkan: ["/dev/dri"], rocm: ["/dev/kfd", "/dev/dri"], cuda: [] }[backend],
      ...(backend === "cuda" ? { gpus: "all" as const } : {}),
    },
  ]),
  [
    "llama with a projector elsewhere",
    contained("cpu", { model: { default: "tiny", projector: "/eyes/mmproj.gguf" } }),
    [...line, ...tiny, "--mmproj", "/eyes/mmproj.gguf"],
    {
      ...least,
      image: `ggml/llama.cpp@${images.llama.cpu.digest}`,
      modelFiles: ["/models/tiny.gguf", "/eyes/mmproj.gguf"],
    },
  ],
  [
    "llama with everything that a manifest may say",
    contained("cuda", {
      backend: "cuda",
      image: "registry.lan:5000/llama:mine",
      mounts: [{ source: "/srv/cache", target: "/cache", readOnly: false }],
      devices: ["/dev/fuse"],
      shmSizeBytes: 1024,
      resources: { memoryBytes: 4096, cpus: 1.5, gpus: 2 },
      args: ["--verbose", "$(PORT)"],
    }),
    [...line, ...tiny, "--verbose", "8080"],
    {
      ...least,
      image: "registry.lan:5000/llama:mine",
      mounts: [{ source: "/srv/cache", target: "/cache", readOnly: false }],
      devices: ["/dev/fuse"],
      gpus: 2,
      shmSizeBytes: 1024,
      memoryBytes: 4096,
      cpus: 1.5,
    },
  ],
  [
    "the embedded engine's image: the same line, without eyes",
    contained("cpu", { image: "berth-embedded:1" }, { model: model({ projectorPath: "/models/mmproj.gguf" }) }),
    [...line, ...tiny],
    { ...least, image: "berth-embedded:1", modelFiles: ["/models/tiny.gguf", "/models/mmproj.gguf"] },
  ],
  [
    "a command of the manifest's own: its devices only, and the image's files may be written",
    contained("vulkan", { command: ["/bin/serve", "$(HOST):$(PORT)"], image: pinned }),
    ["/bin/serve", "0.0.0.0:8080"],
    { ...least, image: pinned, replacesEntrypoint: true, isRootReadOnly: false },
  ],
  [
    "whisper.cpp: one word for its shell",
    contained("cpu", { args: ["--language", "it's"] }, transcribing),
    [
      "exec whisper-server --host 0.0.0.0 --port 8080 --threads 1 --model '/models/ggml base.bin' " +
        String.raw`--inference-path /v1/audio/transcriptions --convert --language auto --split-on-word --language 'it'\''s'`,
    ],
    {
      ...least,
      image: "ggml/whisper.cpp:main",
      modelFiles: ["/models/ggml base.bin"],
      isRootReadOnly: false,
      hasInit: true,
    },
  ],
  [
    "Kokoro: as its image starts",
    contained("cpu", {}, modelless("tts")),
    [],
    { ...least, image: "kokoro-cpu:v0.8.0", port: 8880, modelFiles: [], isRootReadOnly: false },
  ],
  [
    "ComfyUI on ROCm",
    contained("rocm", { image: "comfy:rocm", backend: "rocm" }, modelless("img")),
    [],
    {
      ...least,
      image: "comfy:rocm",
      port: 8188,
      modelFiles: [],
      devices: ["/dev/kfd", "/dev/dri"],
      isRootReadOnly: false,
      hasInit: true,
    },
  ],
  [
    "FastFlowLM on the NPU",
    contained(
      "npu",
      { engine: "npu", image: "flm:1", model: { default: "q", contextSize: 4096 } },
      { ref: "q", model: model({ ref: "q", source: "flm://qwen3:4b", state: "unsupported" }) },
    ),
    ["serve", "qwen3:4b", "--host", "0.0.0.0", "--port", "8086", "--ctx-len", "4096", "--asr", "1", "--embed", "1"],
    {
      ...least,
      image: "flm:1",
      port: 8086,
      modelFiles: [],
      devices: ["/dev/accel/accel0"],
      isMemlockUnlimited: true,
      isRootReadOnly: false,
      hasInit: true,
    },
  ],
  [
    "a custom image: nothing but what its manifest names",
    contained(
      "cpu",
      { engine: "custom", image: "vllm/vllm:1", args: ["--port", "$(PORT)"] },
      { ref: undefined, model: undefined },
    ),
    ["--port", "8080"],
    { ...least, image: "vllm/vllm:1", modelFiles: [], isRootReadOnly: false },
  ],
];

describe("the container of a slot", () => {
  for (const [name, given, command, container] of table) {
    it(name, () => {
      const made = workload(given);
      assert.deepEqual(made.container, container);
      assert.deepEqual(made.command, command);
      assert.deepEqual([made.env["HOST"], made.env["PORT"]], ["0.0.0.0", String(container.port)]);
      assert.deepEqual([made.port, made.runtime], [8081, "docker"]);
    });
  }

  const refusals: readonly [string, EngineInput, string, RegExp][] = [
    ["Kokoro on Vulkan", contained("vulkan", {}, modelless("tts")), "NoImage", /no Vulkan build/],
    ["ComfyUI without an image", contained("rocm", {}, modelless("img")), "NoImage", /publishes no/],
    ["an unknown pair", contained("rocm", {}, transcribing), "NoImage", /stt .*rocm/],
    ["no model for whisper", contained("cpu", {}, modelless("stt")), "ModelNotFound", /called k/],
    [
      "the embedded engine on a GPU",
      contained("cuda", { image: "berth-embedded:1", backend: "cuda" }),
      "NoBackend",
      /CPU only, not with cuda: use backend = "auto" or let the container be of llama-server's own image/,
    ],
  ];
  for (const [name, given, reason, message] of refusals) {
    it(`refuses ${name}`, () => {
      const refused = refusal(given);
      assert.equal(refused.reason, reason);
      assert.match(refused.message, message);
    });
  }

  it("is named by digest: the manifest's, else the shipped digest, else the digest that the first pull found", () => {
    const own = digest("9");
    const of = (spec: SlotSpecInput, lock: Record<string, string> = {}): string | undefined =>
      workload(
        contained("cpu", spec, {
          placement: { ...runningIn("docker"), backend: "cpu", images, lock },
        }),
      ).container?.image;
    assert.equal(of({ imageDigest: own }), `ggml/llama.cpp@${own}`);
    assert.equal(of({ image: "mine:1" }, { "mine:1": own }), `mine@${own}`);
    assert.equal(of({ image: "mine:1" }, { "other:1": own }), "mine:1");
    assert.equal(of({}, { "ggml/llama.cpp:server": own }), `ggml/llama.cpp@${images.llama.cpu.digest}`);
  });

  it("has a warm-up that its engine understands", () => {
    const whisperWarm = engines.stt.probe(contained("cpu", {}, transcribing), "main").warmUp;
    assert.ok(whisperWarm !== undefined && "file" in whisperWarm);
    assert.equal(Buffer.from(whisperWarm.file.base64, "base64").toString("latin1", 0, 4), "RIFF");
    assert.equal(whisperWarm.path, "/v1/audio/transcriptions");
    const kokoro = engines.tts.probe(contained("cpu", {}, { slot: "tts" }), "main").warmUp;
    assert.deepEqual(kokoro, {
      path: "/v1/audio/speech",
      body: { model: "kokoro", input: "hi", response_format: "wav" },
    });
  });
});
