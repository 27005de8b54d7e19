import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotSpecInput } from "../../src/api/slot.ts";
import type { EngineInput } from "../../src/engines/engine.ts";
import { expand } from "../../src/engines/expand.ts";
import { engines } from "../../src/engines/registry.ts";
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
  const path = (spec: SlotSpecInput, ports: EngineInput["ports"]): string =>
    engines.custom.probe({ ...custom({ command: ["x"], ...spec }), ports }).path;
  assert.equal(path({}, {}), "/health");
  const asked: SlotSpecInput = { probe: { path: "/$(SLOT)/$(PORT)/$(ZONE)/$(NO)" }, env: { ZONE: "z$(SLOT)" } };
  assert.equal(path(asked, { main: 8081 }), "/mine/8081/zmine/$(NO)");
  assert.equal(path(asked, {}), "/mine/$(PORT)/zmine/$(NO)");
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
