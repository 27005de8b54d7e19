import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import { capabilitiesOf, workloadsOf, type EngineInput } from "../../src/engines/engine.ts";
import { llama } from "../../src/engines/llama.ts";
import { hostFor } from "../../src/engines/llama-program.ts";
import { engines } from "../../src/engines/registry.ts";
import { embedded, input, model, refusal, workload, workloads } from "./fixture.ts";

const server: EngineInput["host"] = { llamaServer: "/usr/bin/llama-server", embedded };
const embedder = model({ ref: "e5", path: "/models/e5.gguf", capabilities: ["embed"], pooling: "cls" });
const ranker = model({ ref: "rank", path: "/models/rank.gguf", capabilities: ["rerank"], pooling: "rank" });
const shared = ["--host", "127.0.0.1", "--port", "8081", "--threads", "1", "--metrics", "--no-webui"];

test("a chat slot's whole workload", () => {
  const { hash, ...rest } = workload(input());
  assert.match(hash, /^[0-9a-f]{16}$/);
  assert.deepEqual(rest, {
    slot: "primary",
    role: "main",
    ordinal: 0,
    runtime: "process",
    command: [...embedded, ...shared, "--model", "/models/tiny.gguf", "--alias", "tiny", "--parallel", "1", "--jinja"],
    env: {
      LLAMA_ARG_CORS_ORIGINS: "http://berth.invalid",
      CUDA_VISIBLE_DEVICES: "",
      HIP_VISIBLE_DEVICES: "-1",
      ROCR_VISIBLE_DEVICES: "",
      GGML_VK_VISIBLE_DEVICES: "",
      HOST: "127.0.0.1",
      PORT: "8081",
      SLOT: "primary",
      MODEL: "tiny",
      MODEL_PATH: "/models/tiny.gguf",
      ORDINAL: "0",
    },
    bearer: { env: "LLAMA_API_KEY" },
    workingDir: undefined,
    port: 8081,
    stopSeconds: 30,
  });
});

test("llama-server takes the same line, and a GPU backend", () => {
  const theirs = workload(input({ host: server, spec: { backend: "vulkan" } })).command;
  assert.deepEqual(theirs, [server.llamaServer, ...workload(input()).command.slice(embedded.length)]);
});

test("the program that the manifest names runs the slot, and another one replaces its engine", () => {
  const of = (spec: SlotSpecInput): EngineInput => {
    const given = input({ spec });
    return { ...given, host: hostFor(given.spec, server) };
  };
  const ours = workload(of({ program: "embedded" }));
  const theirs = workload(of({ program: "llama-server" }));
  assert.deepEqual(ours.command.slice(0, embedded.length), embedded);
  assert.equal(theirs.command[0], server.llamaServer);
  assert.equal(new Set([ours.hash, theirs.hash, workload(of({})).hash]).size, 3);
  const missing = { ...of({ program: "llama-server" }), host: { llamaServer: undefined, embedded: undefined } };
  assert.match(refusal(missing).message, /no llama-server on PATH, nor does SVC_LLAMA_SERVER name one$/);
});

const eyes = { model: model({ projectorPath: "/models/mmproj.gguf" }) };
const flags: readonly [string, EngineInput, end: string][] = [
  [
    "sizes",
    input({ spec: { model: { default: "tiny", contextSize: 4096, gpuLayers: 0, parallel: 4 } } }),
    "--ctx-size 16384 --n-gpu-layers 0 --parallel 4 --jinja",
  ],
  ["arguments of the manifest come last", input({ spec: { args: ["--top-k", "$(PORT)"] } }), "--top-k 8081"],
  ["an embedding model", input({ model: embedder, ref: "e5" }), "--embedding --pooling cls"],
  ["slot embed with a chat model", input({ slot: "embed" }), "--embedding --pooling mean"],
  ["a ranking model", input({ model: ranker, ref: "rank" }), "--reranking"],
  ["slot embed with a ranking model", input({ slot: "embed", model: ranker, ref: "rank" }), "--reranking"],
  ["a projector beside the model", input({ host: server, ...eyes }), "--jinja --mmproj /models/mmproj.gguf"],
  [
    "the manifest's projector wins",
    input({ host: server, ...eyes, spec: { model: { default: "tiny", projector: "/else/eyes.gguf" } } }),
    "--mmproj /else/eyes.gguf",
  ],
  ["the embedded engine is given no projector that it cannot use", input(eyes), "--parallel 1 --jinja"],
  [
    "slot embed that is to chat",
    input({ slot: "embed", spec: { capabilities: ["chat"] } }),
    "--alias tiny --parallel 1 --jinja",
  ],
  ["a chat slot that is to embed", input({ spec: { capabilities: ["embeddings"] } }), "--embedding --pooling mean"],
];
for (const [name, given, end] of flags) {
  test(`flags: ${name}`, () => assert.ok(workload(given).command.join(" ").endsWith(` ${end}`)));
}

test("a slot that answers embeddings and reranking runs two processes, each with its model and port", () => {
  const two = input({
    slot: "embed",
    ref: "e5",
    model: embedder,
    rerankModel: ranker,
    spec: { model: { default: "e5", rerank: "rank" } },
  });
  assert.deepEqual(
    workloads(two).map(({ role, port, env }) => [role, port, env["MODEL"], env["MODEL_PATH"]]),
    [
      ["main", 8081, "e5", "/models/e5.gguf"],
      ["rerank", 8082, "rank", "/models/rank.gguf"],
    ],
  );
  assert.deepEqual(llama.roles(two), ["main", "rerank"]);
  assert.deepEqual(llama.capabilities(two), ["embeddings", "rerank"]);
  const missing = refusal({ ...two, rerankModel: undefined });
  assert.equal(missing.reason, "ModelNotFound");
  assert.match(missing.message, /^no model is called rank:/);
  const both = workloads(input({ spec: { capabilities: ["embeddings", "rerank"] } }));
  assert.deepEqual(
    both.map(({ env, command }) => [env["MODEL"], command.at(-1)]),
    [
      ["tiny", "mean"],
      ["tiny", "--reranking"],
    ],
  );
  assert.equal(new Set(both.map(({ hash }) => hash)).size, 2);
});

const projected = { model: model({ projectorPath: "/p" }) };
const answers: readonly [string, EngineInput, capabilities: string, protocols: string][] = [
  ["the embedded engine", input(), "chat completions", ""],
  ["llama-server", input({ host: server }), "chat completions", "input_tokens"],
  ["llama-server with eyes", input({ host: server, ...projected }), "chat completions vision", "input_tokens"],
  ["the embedded engine beside a projector", input(projected), "chat completions", ""],
  ["an embedding model", input({ model: embedder }), "embeddings", ""],
  ["slot embed", input({ slot: "embed" }), "embeddings", ""],
  ["slot embed on llama-server", input({ host: server, slot: "embed" }), "embeddings", ""],
  [
    "a model that embeds and ranks",
    input({ slot: "embed", model: model({ capabilities: ["embed", "rerank"] }) }),
    "embeddings rerank",
    "",
  ],
  ["what the spec says", input({ slot: "embed", spec: { capabilities: ["chat"] } }), "chat", ""],
  ["before any model is known", input({ model: undefined }), "chat completions", ""],
  ["a command, whatever is on PATH", input({ host: server, spec: { command: ["/bin/x"] } }), "chat completions", ""],
  [
    "a command whose manifest says so",
    input({ spec: { command: ["/bin/x"], capabilities: ["chat", "messages"] } }),
    "chat messages",
    "messages count_tokens",
  ],
];
for (const [name, given, capabilities, protocols] of answers) {
  test(`capabilities and protocols: ${name}`, () => {
    assert.equal(llama.capabilities(given).join(" "), capabilities);
    assert.equal(llama.protocols(given).join(" "), protocols);
  });
}

test("a custom engine has the protocols that its manifest declares", () => {
  const spec = (capabilities: SlotSpecInput["capabilities"]): EngineInput =>
    input({ spec: { engine: "custom", command: ["/bin/x"], capabilities } });
  assert.deepEqual(engines.custom.protocols(spec(undefined)), []);
  assert.deepEqual(engines.custom.protocols(spec(["chat", "responses"])), ["responses", "input_tokens"]);
});

test("a built-in slot with a model for other work is refused, and still claims its own routes: a chat gets the failure", () => {
  const wrong = input({ ref: "e5", model: embedder });
  assert.deepEqual(workloadsOf(llama, wrong), {
    reason: "NoCapability",
    message: "slot primary chats, and e5 can only embed: give it another model, or this model another slot",
  });
  assert.deepEqual(capabilitiesOf(llama, wrong), ["chat", "completions"]);
  const right = input({ slot: "texts", ref: "e5", model: embedder });
  assert.ok(Array.isArray(workloadsOf(llama, right)));
  assert.deepEqual(capabilitiesOf(llama, right), ["embeddings"]);
});

const asks = (spec: SlotSpecInput): EngineInput => input({ spec });
const refusals: readonly [string, EngineInput, string, RegExp][] = [
  ["no model", input({ ref: undefined, model: undefined }), "ModelNotFound", /names no model/],
  [
    "an unknown model",
    input({ ref: "tinny", model: undefined, knownRefs: ["tiny", "other"] }),
    "ModelNotFound",
    /^no model is called tinny: .* or fetch it by `berth model pull tinny`.*did you mean tiny\?$/,
  ],
  [
    "a source that cannot be fetched",
    input({ model: model({ state: "unsupported", reason: "UnsupportedSource", message: "hf:// cannot" }) }),
    "UnsupportedSource",
    /^hf:\/\/ cannot$/,
  ],
  [
    "a truncated file",
    input({ model: model({ state: "invalid", reason: "TruncatedModel", message: "is incomplete" }) }),
    "TruncatedModel",
    /incomplete/,
  ],
  ["another engine's model", input({ model: model({ engines: ["stt", "npu"] }) }), "WrongEngine", /for stt, npu, not/],
  ["no GGUF", input({ model: { ...model(), architecture: undefined } }), "NotAModel", /tiny\.gguf is no GGUF file/],
  [
    "no engine at all",
    input({ host: { llamaServer: undefined, embedded: undefined } }),
    "NoEngine",
    /berth engine install embedded/,
  ],
  ["a GPU for the embedded engine", asks({ backend: "vulkan" }), "NoBackend", /CPU only, not with vulkan/],
  ["a capability that llama.cpp lacks", asks({ capabilities: ["chat", "speech"] }), "NoCapability", /no speech/],
  [
    "chat and embeddings in one",
    asks({ capabilities: ["chat", "embeddings"] }),
    "NoCapability",
    /embeddings a slot of its own/,
  ],
  [
    "a projector by ref",
    asks({ model: { default: "tiny", projector: "eyes" } }),
    "ProjectorNotFound",
    /absolute path.*not as eyes/,
  ],
  [
    "a projector for the embedded engine",
    asks({ model: { default: "tiny", projector: "/eyes.gguf" } }),
    "NoProjector",
    /cannot see/,
  ],
  ["no port left", input({ ports: {} }), "NoFreePort", /every engine port/],
];
for (const [name, given, reason, message] of refusals) {
  test(`refused: ${name}`, () => {
    const refused = refusal(given);
    assert.equal(refused.reason, reason);
    assert.match(refused.message, message);
  });
}

test("a command replaces program and arguments, and needs neither model file nor engine", () => {
  const made = workload(
    input({
      model: undefined,
      host: { llamaServer: undefined, embedded: undefined },
      spec: { command: ["/bin/serve", "$(MODEL)"], args: ["-v"] },
    }),
  );
  assert.deepEqual(made.command, ["/bin/serve", "tiny", "-v"]);
});

test("warm-up sends each mode a request of its own kind", () => {
  assert.deepEqual(llama.probe(input(), "main"), {
    path: "/health",
    warmUp: {
      path: "/v1/chat/completions",
      body: { model: "tiny", messages: [{ role: "user", content: "hi" }], max_tokens: 1 },
    },
    protocols: [],
  });
  assert.deepEqual(llama.probe(input({ host: server }), "main").protocols, ["input_tokens"]);
  const both = input({ slot: "embed", spec: { model: { default: "tiny", rerank: "rank" } }, rerankModel: ranker });
  assert.deepEqual(llama.probe(both, "main").warmUp, {
    path: "/v1/embeddings",
    body: { model: "tiny", input: ["warm"] },
  });
  assert.deepEqual(llama.probe(both, "rerank").warmUp, {
    path: "/v1/rerank",
    body: { model: "rank", query: "warm", documents: ["up"] },
  });
});

test("a context above the model's own is reported if the embedded engine cuts it, and for no other engine", () => {
  const longest = { contextLength: 2048 };
  const asking = (contextSize: number, more = {}): unknown => {
    const given = input({ spec: { model: { default: "tiny", contextSize } }, ...more });
    return llama.derived({ ...given, model: given.model === undefined ? undefined : { ...given.model, ...longest } })[
      "contextSize"
    ];
  };
  assert.deepEqual(asking(8192), {
    value: "2048",
    reason: "context_size 8192 is above the model's own 2048, beyond which the embedded engine gives none",
  });
  assert.equal(asking(2048), undefined);
  assert.equal(asking(8192, { host: server }), undefined);
});
