import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { builtinSlots, isBuiltin, modelRefSchema, slotNameSchema } from "../../src/api/names.ts";
import {
  completeSlot,
  defaultEngine,
  slotRules,
  slotSpecSchema,
  unconfiguredSlot,
  type SlotSpecInput,
} from "../../src/api/slot.ts";

const held: SlotSpecInput = { model: { default: "tiny" } };

function rules(name: string, spec: SlotSpecInput): string[] {
  return slotRules(name, slotSpecSchema.parse(spec)).map(({ path, message }) => `${path.join(".")}: ${message}`);
}

function issues(spec: unknown): string[] {
  const { error } = slotSpecSchema.safeParse(spec);
  return error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`) ?? [];
}

describe("slot spec", () => {
  it("is complete with a model alone", () => {
    assert.deepEqual(completeSlot("primary", slotSpecSchema.parse(held)), {
      enabled: true,
      engine: "llama",
      backend: "auto",
      runtime: "auto",
      model: { default: "tiny", parallel: 1, onRequest: [] },
      load: "always",
      idleSeconds: 600,
      args: [],
      env: {},
      mounts: [],
      devices: [],
      probe: { startupSeconds: 600, intervalSeconds: 5, timeoutSeconds: 3, failures: 3, hungSeconds: 300 },
      stopSeconds: 30,
      concurrency: { queue: 64 },
      timeoutSeconds: { firstByte: 1800, idle: 300 },
      resources: {},
      aliases: [],
      request: { set: {}, strip: [] },
      priority: 0,
      pinned: false,
    });
  });

  it("keeps the defaults of a group's other fields where the group has a single field", () => {
    const { probe, timeoutSeconds } = slotSpecSchema.parse({ probe: { failures: 5 }, timeoutSeconds: { idle: 0 } });
    assert.deepEqual([probe.failures, probe.hungSeconds], [5, 300]);
    assert.deepEqual(timeoutSeconds, { firstByte: 1800, idle: 0 });
  });

  it("never changes when its own output is read again", () => {
    const once = slotSpecSchema.parse({ ...held, env: { A: "b" }, mounts: [{ source: "/a", target: "/b" }] });
    assert.deepEqual(slotSpecSchema.parse(once), once);
  });

  it("gives built-in slots an engine of their kind, and img the backend rocm, unless the spec says otherwise", () => {
    const names = { primary: "llama", embed: "llama", stt: "stt", tts: "tts", img: "image", coder: "llama" };
    for (const [name, engine] of Object.entries(names)) assert.equal(defaultEngine(name), engine, name);
    const backendOf = (name: string, spec: SlotSpecInput) => completeSlot(name, slotSpecSchema.parse(spec)).backend;
    assert.deepEqual(
      [backendOf("img", {}), backendOf("img", { backend: "cpu" }), backendOf("primary", {})],
      ["rocm", "cpu", "auto"],
    );
  });

  it("has five built-ins that are disabled without a file", () => {
    assert.deepEqual([...builtinSlots], ["primary", "embed", "stt", "tts", "img"]);
    assert.ok(isBuiltin("img") && !isBuiltin("coder"));
    for (const name of builtinSlots) {
      const spec = unconfiguredSlot(name);
      assert.equal(spec.enabled, false);
      assert.deepEqual(slotRules(name, spec), [], name);
    }
  });

  const refused: readonly (readonly [what: string, spec: unknown, problem: RegExp])[] = [
    ["an unknown key", { enabeld: true }, /enabeld/],
    ["an unknown key of a group", { model: { contextsize: 1 } }, /model: .*contextsize/],
    ["a text for a switch", { enabled: "yes" }, /enabled: /],
    ["an unknown engine", { engine: "vllm" }, /engine: /],
    ["a port outside the range", { port: 8080 }, /port: /],
    ["a port beyond the range", { port: 8100 }, /port: /],
    ["a ref with a space", { model: { default: "a b" } }, /model\.default: must be a letter or digit/],
    ["no parallel requests", { model: { parallel: 0 } }, /model\.parallel/],
    ["a fraction of a context", { model: { contextSize: 1.5 } }, /model\.contextSize/],
    ["no capability at all", { capabilities: [] }, /capabilities/],
    ["an unknown capability", { capabilities: ["sing"] }, /capabilities\.0/],
    ["an empty command", { command: [] }, /command/],
    ["a tag for a digest", { imageDigest: "latest" }, /imageDigest: sha256/],
    ["a relative directory", { workingDir: "x" }, /workingDir/],
    ["a device elsewhere", { devices: ["/etc/passwd"] }, /devices\.0/],
    ["a variable that is no name", { env: { "A-B": "c" } }, /env\.A-B/],
    ["a number for a variable", { env: { A: 1 } }, /env\.A/],
    ["a secret by value", { env: { A: { value: "x" } } }, /env\.A/],
    ["a negative time", { stopSeconds: -1 }, /stopSeconds/],
    ["a group that no address can name", { group: "gpu/0" }, /group: at most 64/],
    ["a group with a long name", { group: "g".repeat(65) }, /group: at most 64/],
    ["an empty alias", { aliases: [""] }, /aliases\.0/],
    ["a function as JSON", { request: { set: { a: undefined } } }, /request\.set\.a/],
  ];
  for (const [what, spec, problem] of refused) {
    it(`refuses ${what}`, () => assert.match(issues(spec).join("\n"), problem));
  }

  it("takes secrets by where they are", () => {
    const env = { A: { valueFrom: { file: "/run/a" } }, B: { valueFrom: { secretKeyRef: { name: "n", key: "k" } } } };
    assert.deepEqual(slotSpecSchema.parse({ env }).env, env);
    assert.notDeepEqual(
      issues({ env: { A: { valueFrom: { file: "/a", secretKeyRef: { name: "n", key: "k" } } } } }),
      [],
    );
  });
});

describe("slot rules", () => {
  const allowed: readonly (readonly [name: string, spec: SlotSpecInput])[] = [
    ["primary", held],
    ["primary", { ...held, engine: "npu" }],
    ["embed", { ...held, model: { default: "tiny", rerank: "ranker" } }],
    ["stt", { ...held, engine: "npu" }],
    ["img", { ...held, engine: "image" }],
    ["tts", { engine: "custom", command: ["serve"] }],
    ["coder", { engine: "custom", image: "vllm:1" }],
    ["coder", { engine: "custom", enabled: false }],
    ["coder", { enabled: false }],
    ["coder", { ...held, load: "onDemand", pinned: true }],
    ["coder", { ...held, pinned: true, group: "gpu0" }],
    ["coder", { ...held, aliases: ["a", "b"] }],
    ["coder", { ...held, request: { set: { a: [-(2 ** 53) + 1, 0.1, null], b: "18446744073709551615" } } }],
    ["stt", { ...held, capabilities: ["transcription"] }],
    ["stt", { ...held, engine: "npu", capabilities: ["chat", "transcription"] }],
    ["coder", { ...held, capabilities: ["chat", "rerank", "vision"] }],
    ["coder", { ...held, command: ["serve"], capabilities: ["speech"] }],
    ["tts", { engine: "custom", command: ["serve"], capabilities: ["speech", "transcription"] }],
  ];
  it("allow these", () => {
    for (const [name, spec] of allowed) assert.deepEqual(rules(name, spec), [], `${name} ${JSON.stringify(spec)}`);
  });

  const refused: readonly (readonly [name: string, spec: SlotSpecInput, problem: string])[] = [
    ["primary", { ...held, engine: "stt" }, "engine: slot primary runs llama, npu, custom, not stt"],
    ["embed", { ...held, engine: "image" }, "engine: slot embed runs llama, npu, custom, not image"],
    ["stt", { ...held, engine: "llama" }, "engine: slot stt runs stt, npu, custom, not llama"],
    ["tts", { ...held, engine: "npu" }, "engine: slot tts runs tts, custom, not npu"],
    ["img", { ...held, engine: "tts" }, "engine: slot img runs image, custom, not tts"],
    ["coder", { engine: "custom" }, "command: a custom engine needs command, or image for containers"],
    ["coder", {}, "model.default: an enabled slot needs the model it holds"],
    [
      "stt",
      { model: { default: "a", rerank: "b" } },
      "model.rerank: only a llama slot runs a second process for reranking",
    ],
    [
      "stt",
      { ...held, capabilities: ["transcription", "chat"] },
      "capabilities.1: the stt engine has no chat, only transcription",
    ],
    [
      "tts",
      { ...held, command: ["serve"], capabilities: ["transcription"] },
      "capabilities.0: the tts engine has no transcription, only speech",
    ],
    ["img", { ...held, capabilities: ["vision"] }, "capabilities.0: the image engine has no vision, only image"],
    [
      "coder",
      { ...held, capabilities: ["chat", "speech"] },
      "capabilities.1: the llama engine has no speech, only chat, completions, embeddings, rerank, vision, responses, messages",
    ],
    ...(
      [{ runtime: "docker" }, { image: "engine" }, { command: ["serve"] }, { engine: "npu" }] satisfies SlotSpecInput[]
    ).map((more): readonly [string, SlotSpecInput, string] => [
      "coder",
      { ...held, ...more, program: "embedded" },
      "program: is for a llama slot that runs as a process, without command and image",
    ]),
    ["coder", { ...held, pinned: true }, "pinned: pinned says something only within a group"],
    ["coder", { ...held, aliases: ["a", "a"] }, "aliases: an alias is listed twice"],
    ["coder", { ...held, aliases: ["coder"] }, "aliases: coder is already the slot's own name"],
    [
      "coder",
      { ...held, request: { set: { a: { b: [2 ** 53] } } } },
      "request.set.a: holds a whole number beyond 9007199254740991, which would reach the engine rounded",
    ],
  ];
  for (const [name, spec, problem] of refused) {
    it(`refuse ${name} ${JSON.stringify(spec)}`, () => assert.deepEqual(rules(name, spec), [problem]));
  }

  it("report every broken rule", () => assert.equal(rules("img", { engine: "llama", pinned: true }).length, 3));
});

it("names and refs are those that a path and a request can hold", () => {
  for (const [schema, good, bad] of [
    [
      slotNameSchema,
      ["a", "0", "coder-2", "a".repeat(32)],
      ["", "-a", "a-", "A", "a_b", "a.b", "a/b", "../a", "ä", "a".repeat(33), "a\n"],
    ],
    [
      modelRefSchema,
      ["qwen3-4b", "qwen3:4b", "vendor/model:free", "A@b", "a".repeat(201)],
      ["", ".a", "/a", "a b", "a\n", "é", "a".repeat(202)],
    ],
  ] as const) {
    for (const name of good) assert.ok(schema.safeParse(name).success, name);
    for (const name of bad) assert.ok(!schema.safeParse(name).success, JSON.stringify(name));
  }
});
