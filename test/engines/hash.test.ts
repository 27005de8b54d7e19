import assert from "node:assert/strict";
import { test } from "node:test";
import type { EngineLock } from "../../src/api/engine-images.ts";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput } from "../../src/engines/engine.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { embedded, input, model, workload, workloads } from "./fixture.ts";

const base = workload(input()).hash;
const spec = (overrides: SlotSpecInput): EngineInput => input({ spec: overrides });
const inContainer = (overrides: SlotSpecInput = {}, lock: EngineLock = {}): EngineInput =>
  input({
    spec: overrides,
    placement: {
      ...runningIn("docker"),
      backend: "cpu",
      images: { llama: { cpu: { image: "llama:cpu" } } },
      lock,
    },
  });
const tiny = { default: "tiny" };

const restarts: readonly [string, EngineInput][] = [
  ["another model", input({ ref: "other", model: model({ ref: "other" }) })],
  ["other files of the same ref", input({ model: model({ path: "/b.gguf", files: ["/b.gguf"] }) })],
  ["other bytes by checksum", input({ model: model({ sha256: "a".repeat(64) }) })],
  ["contextSize", spec({ model: { ...tiny, contextSize: 1024 } })],
  ["gpuLayers", spec({ model: { ...tiny, gpuLayers: 1 } })],
  ["parallel", spec({ model: { ...tiny, parallel: 2 } })],
  ["threads of the spec", spec({ model: { ...tiny, threads: 2 } })],
  ["backend", spec({ backend: "cpu" })],
  ["args", spec({ args: ["--verbose"] })],
  ["command", spec({ command: ["serve"] })],
  ["env", spec({ env: { A: "1" } })],
  ["where a secret is", spec({ env: { A: { valueFrom: { file: "/a" } } } })],
  ["workingDir", spec({ workingDir: "/srv" })],
  ["runtime", inContainer()],
  ["mounts", spec({ mounts: [{ source: "/a", target: "/b" }] })],
  ["devices", spec({ devices: ["/dev/dri"] })],
  ["resources", spec({ resources: { cpus: 1 } })],
  ["a fixed port", spec({ port: 8090 })],
  ["mode, by what the model is", input({ model: model({ capabilities: ["embed"] }) })],
  ["a projector that came", input({ model: model({ projectorPath: "/eyes.gguf" }) })],
];
for (const [name, given] of restarts) {
  test(`a new hash: ${name}`, () => assert.notEqual(workload(given).hash, base));
}

const keeps: readonly [string, EngineInput][] = [
  ["threads that were derived", input({ threads: 7 })],
  ["an automatic port", input({ ports: { main: 8099 } })],
  ["which llama.cpp", input({ host: { llamaServer: "/bin/llama-server", embedded } })],
  ["a model touched, or described anew", input({ model: model({ fingerprint: "1:2", created: 9, family: "x" }) })],
  ["idleSeconds", spec({ idleSeconds: 1 })],
  ["load", spec({ load: "onDemand" })],
  ["concurrency", spec({ concurrency: { max: 9, queue: 1 } })],
  ["aliases", spec({ aliases: ["gpt"] })],
  ["request", spec({ request: { set: { top_k: 1 } } })],
  ["timeouts", spec({ timeoutSeconds: { idle: 1 } })],
  ["priority", spec({ priority: 5 })],
  ["probe", spec({ probe: { path: "/ok", intervalSeconds: 9 } })],
  ["stopSeconds", spec({ stopSeconds: 1 })],
  ["what other refs there are", input({ knownRefs: ["a"] })],
];
for (const [name, given] of keeps) {
  test(`the same hash: ${name}`, () => assert.equal(workload(given).hash, base));
}

for (const [name, given] of [
  ["image", inContainer({ image: "llama" })],
  ["imageDigest", inContainer({ imageDigest: `sha256:${"0".repeat(64)}` })],
  ["a digest that the first pull found", inContainer({}, { "llama:cpu": `sha256:${"1".repeat(64)}` })],
] as const) {
  test(`a new hash in a container: ${name}`, () => assert.notEqual(workload(given).hash, workload(inContainer()).hash));
}

test("the same hash: a digest in the manifest, and the shipped digest of the same image", () => {
  const digest = `sha256:${"1".repeat(64)}`;
  const locked = workload(inContainer({}, { "llama:cpu": digest })).hash;
  assert.equal(workload(inContainer({ imageDigest: digest })).hash, locked);
});

test("the order in which a manifest names variables is no change", () => {
  assert.equal(workload(spec({ env: { A: "1", B: "2" } })).hash, workload(spec({ env: { B: "2", A: "1" } })).hash);
});

test("different slots, and the processes of a slot, never share a hash", () => {
  assert.notEqual(workload(input({ slot: "coder" })).hash, base);
  const both = workloads(input({ spec: { capabilities: ["embeddings", "rerank"] } }));
  assert.equal(new Set(both.map(({ hash }) => hash)).size, 2);
});

test("another reranker restarts the reranker alone", () => {
  const hashes = (rerank: string): string[] =>
    workloads(
      input({ slot: "embed", rerankModel: model({ ref: rerank }), spec: { model: { default: "tiny", rerank } } }),
    ).map(({ hash }) => hash);
  const [main, reranker] = hashes("a");
  const [sameMain, otherReranker] = hashes("b");
  assert.equal(main, sameMain);
  assert.notEqual(reranker, otherReranker);
});
