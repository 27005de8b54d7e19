import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelRecord } from "../../src/api/model.ts";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput, ProbeInput } from "../../src/engines/engine.ts";
import { expand } from "../../src/engines/expand.ts";
import { podBackend } from "../../src/engines/placement.ts";
import { engines } from "../../src/engines/registry.ts";
import { runningIn } from "../doubles/runtime-kinds.ts";
import { input, model, refusal, workload } from "./fixture.ts";

const expansions: readonly [string, string][] = [
  ["$(PORT)", "8081"],
  ["http://$(HOST):$(PORT)/$(PORT)", "http://h:8081/8081"],
  ["$(UNKNOWN)", "$(UNKNOWN)"],
  ["$$(PORT)", "$(PORT)"],
  ["$$$(PORT)", "$$(PORT)"],
  ["$PORT ${PORT} $() $(", "$PORT ${PORT} $() $("],
  ["$(constructor)", "$(constructor)"],
];
for (const [text, expected] of expansions) {
  test(`expand ${text}`, () => assert.equal(expand(text, { PORT: "8081", HOST: "h" }), expected));
}

const custom = (spec: SlotSpecInput, overrides: Partial<EngineInput> = {}): EngineInput => ({
  ...input({ slot: "mine", spec: { engine: "custom", ...spec } }),
  ref: undefined,
  model: undefined,
  ...overrides,
});

test("names are expanded in command, args and env; a file stays a reference", () => {
  const made = workload(
    custom(
      {
        command: ["serve", "--port=$(PORT)", "$(MODEL)", "$(MODEL_PATH)|", "$(GREETING)"],
        args: ["$(SLOT)", "$$(SLOT)"],
        env: { GREETING: "hello $(SLOT)", TOKEN: { valueFrom: { file: "/run/token" } } },
        workingDir: "/srv",
      },
      { ref: "any/ref" },
    ),
  );
  assert.deepEqual(made.command, ["serve", "--port=8081", "any/ref", "|", "hello mine", "mine", "$(SLOT)"]);
  assert.deepEqual(made.env, {
    HOST: "127.0.0.1",
    PORT: "8081",
    SLOT: "mine",
    MODEL: "any/ref",
    MODEL_PATH: "",
    ORDINAL: "0",
    GREETING: "hello mine",
    TOKEN: { file: "/run/token" },
  });
  assert.equal(made.workingDir, "/srv");
});

test("a model's path is data: nothing in it is expanded", () => {
  const path = "/models/$(PORT).gguf";
  const made = workload(input({ model: model({ path, files: [path] }) }));
  assert.ok(made.command.includes(path));
});

test("a Kubernetes Secret is refused by name where there is no Kubernetes", () => {
  const refused = refusal(
    custom({ command: ["x"], env: { KEY: { valueFrom: { secretKeyRef: { name: "s", key: "k" } } } } }),
  );
  assert.equal(refused.reason, "NoSecret");
  assert.match(refused.message, /^env\.KEY /);
});

test("the probe path is the engine's own, or the manifest's with its names expanded", () => {
  const path = (spec: SlotSpecInput, endpoint?: ProbeInput["endpoint"]): string =>
    engines.custom.probe({
      ...custom({ command: ["x"], ...spec }),
      ...(endpoint === undefined ? {} : { endpoint }),
    }).path;
  assert.equal(path({}), "/health");
  const asked: SlotSpecInput = {
    probe: { path: "/$(SLOT)/$(HOST)/$(PORT)/$(ZONE)/$(NO)" },
    env: { ZONE: "z$(SLOT)" },
  };
  assert.equal(path(asked, { host: "10.0.0.7", port: 8081 }), "/mine/10.0.0.7/8081/zmine/$(NO)");
  assert.equal(path(asked), "/mine/$(HOST)/$(PORT)/zmine/$(NO)");
});

test("a custom slot: any ref, but a declared model must be there", () => {
  assert.deepEqual(engines.custom.capabilities(custom({ command: ["x"] })), ["chat", "completions"]);
  assert.deepEqual(engines.custom.capabilities(custom({ command: ["x"], capabilities: ["rerank"] })), ["rerank"]);
  assert.equal(engines.custom.servedModel(custom({}, { ref: "r" })), "r");
  assert.equal(engines.custom.servedModel(custom({})), "mine");
  assert.equal(refusal(custom({ image: "vllm" })).reason, "NoRuntime");
  const missing = model({ state: "missing", reason: "ModelFileMissing", message: "gone" });
  assert.deepEqual(refusal(custom({ command: ["x"] }, { model: missing })), {
    reason: "ModelFileMissing",
    message: "gone",
  });
  assert.equal(refusal(custom({ command: ["x"] }, { model: model({ engines: ["llama"] }) })).reason, "WrongEngine");
});

test("as processes, engines that come as containers need a command, and say so", () => {
  const kinds = [
    ["stt", "stt", ["transcription"], "/health"],
    ["tts", "tts", ["speech"], "/health"],
    ["img", "image", ["image"], "/system_stats"],
  ] as const;
  for (const [slot, engine, capabilities, path] of kinds) {
    const bare = input({ slot, spec: { engine } });
    assert.equal(refusal(bare).reason, "NoRuntime");
    assert.deepEqual(engines[engine].capabilities(bare), capabilities);
    assert.equal(engines[engine].probe(bare, "main").path, path);
    assert.deepEqual(workload(input({ slot, spec: { engine, command: ["run", "$(PORT)"] } })).command, ["run", "8081"]);
  }
});

test("the runtime decides the engine's listen address and the port of its endpoint", () => {
  const command = ["serve", "$(HOST)", "$(PORT)", "$(ORDINAL)"];
  const made = (runtime: "process" | "docker" | "kubernetes", ordinal?: number): [string, number, number] => {
    const base = custom({ command, image: "mine:1" });
    const placement = { ...base.placement, ...runningIn(runtime) };
    const ports = runtime === "kubernetes" ? {} : { main: 8085 };
    const found = workload({ ...base, placement, ports, ...(ordinal === undefined ? {} : { ordinal }) });
    return [found.command.join(" "), found.port, found.ordinal];
  };
  assert.deepEqual(made("process"), ["serve 127.0.0.1 8085 0", 8085, 0]);
  assert.deepEqual(made("docker", 1), ["serve 0.0.0.0 8080 1", 8085, 1]);
  assert.deepEqual(
    made("kubernetes", 2),
    ["serve 0.0.0.0 8080 2", 8080, 2],
    "an address of its own needs no leased port",
  );
});

test("only a Pod has extended resources, claims, a template and keys of Secrets", () => {
  const podTemplate = { spec: { runtimeClassName: "nvidia" } };
  const resources = { extended: { "nvidia.com/gpu": 1 }, claims: [{ name: "gpu", resourceClaimName: "shared" }] };
  const env = { KEY: { valueFrom: { secretKeyRef: { name: "s", key: "k" } } } };
  const made = (runtime: "docker" | "kubernetes", spec: SlotSpecInput) => {
    const base = custom({ command: ["serve"], image: "mine:1", ...spec });
    return { ...base, placement: { ...base.placement, ...runningIn(runtime) } };
  };
  const pod = workload(made("kubernetes", { podTemplate, resources, env }));
  assert.deepEqual(pod.container?.pod, { backend: "cpu", ...resources, template: podTemplate });
  assert.deepEqual(pod.env["KEY"], { secretKeyRef: { name: "s", key: "k" } });
  assert.equal(refusal(made("docker", { env })).reason, "NoSecret");
  const docker = workload(made("docker", { podTemplate }));
  assert.equal(docker.container?.pod, undefined);
  assert.equal(docker.hash, workload(made("docker", {})).hash, "where no Pod is made, a template restarts nothing");
  assert.notEqual(workload(made("kubernetes", { podTemplate })).hash, workload(made("kubernetes", {})).hash);
});

test("a Pod knows the memory of its model, unless a GPU has it, and that figure restarts nothing", () => {
  const made = (spec: SlotSpecInput, more: Partial<ModelRecord>) => {
    const base = input({ spec: { image: "llama:1", ...spec }, model: model(more) });
    const placement = { ...base.placement, ...runningIn("kubernetes"), backend: spec.backend ?? "cpu" };
    assert.ok(placement.backend !== "auto");
    return workload({ ...base, placement: { ...placement, backend: placement.backend } });
  };
  const bytes = (spec: SlotSpecInput, more: Partial<ModelRecord>) => made(spec, more).container?.pod?.memoryBytes;
  assert.deepEqual(
    [
      bytes({}, { sizeBytes: 5e9 }),
      bytes({}, { sizeBytes: 5e9, memoryBytes: 6e9 }),
      bytes({ backend: "vulkan" }, { sizeBytes: 5e9 }),
      bytes({ backend: "vulkan" }, { sizeBytes: 5e9, memoryBytes: 1e9 }),
      bytes({}, {}),
    ],
    [5e9, 6e9, undefined, 1e9, undefined],
  );
  assert.equal(made({}, { sizeBytes: 5e9 }).hash, made({}, {}).hash);
});

const asked: readonly [Readonly<Record<string, number>>, string, string][] = [
  [{}, "cpu", "resources.extended asks for no GPU"],
  [{ "nvidia.com/gpu": 1 }, "cuda", "its Pod asks for an NVIDIA GPU"],
  [{ "amd.com/gpu": 1 }, "vulkan", "its Pod asks for a render node"],
  [{ "gpu.intel.com/xe": 1 }, "vulkan", "its Pod asks for a render node"],
  [{ "devic.es/dri-render": 1 }, "vulkan", "its Pod asks for a render node"],
];
for (const [extended, value, reason] of asked) {
  test(`the backend of a Pod that asks for ${JSON.stringify(extended)} is ${value}`, () => {
    assert.deepEqual(podBackend({ backend: "auto", engine: "llama", resources: { extended } }), { value, reason });
  });
}
