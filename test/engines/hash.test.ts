import assert from "node:assert/strict";
import { test } from "node:test";
import type { EngineLock } from "../../src/api/engine-images.ts";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput } from "../../src/engines/engine.ts";
import { canonicalJson, sha256 } from "../../src/lib/canonical.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { embedded, input, model, workload, workloads } from "./fixture.ts";

const base = workload(input()).hash;
const spec = (overrides: SlotSpecInput): EngineInput => input({ spec: overrides });
const inContainer = (overrides: SlotSpecInput = {}, lock: EngineLock = {}): EngineInput =>
  input({
    spec: overrides,
    placement: { ...runningIn("docker"), backend: "cpu", images: { llama: { cpu: { image: "llama:cpu" } } }, lock },
  });
const tiny = { default: "tiny" };
const digest = `sha256:${"1".repeat(64)}`;
const locked = inContainer({}, { "llama:cpu": digest });

const restarts: readonly [string, EngineInput, from?: EngineInput][] = [
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
  ["another slot", input({ slot: "coder" })],
  ["image", inContainer({ image: "llama" }), inContainer()],
  ["imageDigest", inContainer({ imageDigest: `sha256:${"0".repeat(64)}` }), inContainer()],
  ["a digest that the first pull found", locked, inContainer()],
];
for (const [name, given, from = input()] of restarts)
  test(`a new hash: ${name}`, () => assert.notEqual(workload(given).hash, workload(from).hash));

const keeps: readonly [string, EngineInput, from?: EngineInput][] = [
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
  ["the number of replicas", input({ spec: { replicas: 3 }, ordinal: 2 })],
  ["the order of variables", spec({ env: { A: "1", B: "2" } }), spec({ env: { B: "2", A: "1" } })],
  ["a digest of the manifest, or the same of the first pull", inContainer({ imageDigest: digest }), locked],
];
for (const [name, given, from = input()] of keeps)
  test(`the same hash: ${name}`, () => assert.equal(workload(given).hash, workload(from).hash));

test("an update of Berth restarts no engine, and is no edit", () => {
  assert.equal(base, "8ea5ad20ce3d88fa");
  const { spec: complete } = input();
  assert.equal(sha256(canonicalJson(complete)), "bec923b8f3a0281f24cd16eab7c646eedcb7a174acbb2466ee10aeadb3a0902c");
});

test("another reranker restarts the reranker alone", () => {
  const hashes = (rerank: string): string[] =>
    workloads(
      input({ slot: "embed", rerankModel: model({ ref: rerank }), spec: { model: { default: "tiny", rerank } } }),
    ).map(({ hash }) => hash);
  const [main, reranker] = hashes("a");
  const [sameMain, otherReranker] = hashes("b");
  assert.equal(main, sameMain);
  assert.equal(new Set([main, reranker, otherReranker]).size, 3);
});
