import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { upstreamSpecSchema } from "../../src/api/upstream.ts";
import { isRecord } from "../../src/lib/record.ts";
import { envelopeOf } from "../support/envelope.ts";
import { modelRecord, startGateway, type SlotSketch, type TestGateway } from "../support/gateway.ts";

/** Every kind of entry, with names as real ones are. */
function site(): Promise<TestGateway> {
  return startGateway({
    slots: {
      primary: {
        port: 1,
        spec: { engine: "llama", model: { default: "qwen3:4b" } },
        status: { model: { ref: "qwen3:4b", origin: "spec" }, capabilities: ["chat", "completions"] },
      },
      zeta: { state: "starting", status: { model: { ref: "gone", origin: "spec" } } },
      coder: { spec: { enabled: false }, status: { model: { origin: "spec" }, capabilities: [] } },
    },
    registry: {
      models: [modelRecord("vendor/model:free"), { ...modelRecord("qwen3:4b"), created: 1234, capabilities: ["chat"] }],
      upstreams: [
        {
          name: "acme",
          spec: upstreamSpecSchema.parse({
            baseUrl: "http://127.0.0.1:1/v1",
            models: [{ ref: "acme/large:free" }, { ref: "gpt-5" }],
          }),
        },
      ],
    },
  });
}

async function read({ url }: TestGateway, path: string): Promise<Record<string, unknown>> {
  const body: unknown = await (await fetch(url + path)).json();
  assert.ok(isRecord(body), path);
  return body;
}

async function entries(gateway: TestGateway, path: string): Promise<Record<string, unknown>[]> {
  const { data } = await read(gateway, path);
  assert.ok(Array.isArray(data) && data.every(isRecord), path);
  return data;
}

const idsOf = async (gateway: TestGateway, path: string): Promise<unknown[]> =>
  (await entries(gateway, path)).map(({ id }) => id);

/** The list. A model whose age nobody knows came with the gateway, which is said here by 0. */
async function listed(gateway: TestGateway): Promise<unknown[]> {
  const { uptime_seconds: uptime } = await read(gateway, "/api/status");
  const startedAt = Date.now() / 1000 - Number(uptime);
  const list = await entries(gateway, "/v1/models");
  return list.map((each) => (Math.abs(Number(each["created"]) - startedAt) < 60 ? { ...each, created: 0 } : each));
}

const item = (id: string, berth: object, created = 0, value?: string): object => ({
  id,
  object: "model",
  created,
  owned_by: "berth",
  ...(value === undefined ? {} : { status: { value } }),
  berth,
});
const values: Readonly<Record<string, string>> = { ready: "loaded", starting: "loading" };
const slot = (id: string, model: string | null, state = "offline", capabilities: string[] = [], created = 0): object =>
  item(id, { kind: "slot", state, slot: id, model, capabilities }, created, values[state] ?? "unloaded");
const upstream = { kind: "upstream", state: "unknown", slot: null, upstream: "acme" };

const capabilities = ["chat", "completions", "embeddings", "messages", "responses"];

describe("GET /v1/models", () => {
  it("lists slots in the specification's order, other slots by name, the registry's models, and those of upstreams", async () => {
    await using gateway = await site();
    const response = await fetch(`${gateway.url}/v1/models`);
    assert.equal(response.headers.get("content-type"), "application/json; charset=utf-8");
    assert.deepEqual(await listed(gateway), [
      slot("primary", "qwen3:4b", "ready", ["chat", "completions"], 1234),
      slot("embed", null),
      slot("stt", null),
      slot("tts", null),
      slot("img", null),
      slot("zeta", "gone", "starting", ["chat", "completions", "embeddings", "rerank"]),
      item("qwen3:4b", { kind: "model", state: "available", slot: "primary", capabilities: ["chat"] }, 1234, "loaded"),
      item("vendor/model:free", { kind: "model", state: "available", slot: null, capabilities: [] }, 1, "unloaded"),
      item("acme/large:free", { ...upstream, capabilities }),
      item("gpt-5", { ...upstream, capabilities }),
    ]);
  });

  it("leaves out custom slots that cannot answer, and with ?available=1 every entry that cannot", async () => {
    await using gateway = await site();
    const ids = (query: string): Promise<unknown[]> => idsOf(gateway, `/v1/models${query}`);
    const builtins = ["primary", "embed", "stt", "tts", "img"];
    const rest = ["qwen3:4b", "vendor/model:free", "acme/large:free", "gpt-5"];
    assert.deepEqual(await ids("?all=1&limit=5"), [...builtins, "coder", "zeta", ...rest]);
    assert.deepEqual(await ids(""), [...builtins, "zeta", ...rest]);
    assert.deepEqual(await ids("?available=1"), ["primary", "zeta", "qwen3:4b", "acme/large:free", "gpt-5"]);
    const stalled = { type: "Stalled", status: "True", reason: "ModelNotFound", message: "m" } as const;
    const times = { observedGeneration: 1, lastTransitionTime: new Date().toISOString() };
    await gateway.publish("zeta", { state: "error", status: { conditions: [{ ...stalled, ...times }] } });
    assert.deepEqual(await ids(""), [...builtins, ...rest], "it waits for a person");
    const retried = { failures: 1, nextRetryAt: new Date(Date.now() + 2000).toISOString(), conditions: [] };
    await gateway.publish("zeta", { state: "error", status: retried });
    assert.deepEqual(await ids(""), [...builtins, "zeta", ...rest], "it is tried again in a moment");
  });

  it("has every id once: a slot hides a model of its name, and a provider's model hides a model that no slot holds", async () => {
    const acme = { baseUrl: "http://127.0.0.1:1/v1", models: [{ ref: "coder" }, { ref: "spare" }, { ref: "held" }] };
    await using gateway = await startGateway({
      slots: { coder: { port: 1, status: { model: { ref: "held", origin: "spec" } } } },
      registry: {
        models: ["coder", "spare", "held"].map(modelRecord),
        upstreams: [{ name: "acme", spec: upstreamSpecSchema.parse(acme) }],
      },
    });
    const list = (await entries(gateway, "/v1/models")).slice(5);
    const kinds = list.map(({ id, berth }) => [id, isRecord(berth) && berth["kind"]]);
    assert.deepEqual(kinds, [
      ["coder", "slot"],
      ["held", "model"],
      ["spare", "upstream"],
    ]);
  });

  it("has files that are no models with ?all=1 alone, and /api/models shows them", async () => {
    const projector = {
      ...modelRecord("mmproj"),
      state: "invalid",
      reason: "NotAModel",
      message: "a projector",
    } as const;
    const cut = { ...modelRecord("cut"), state: "invalid", reason: "TruncatedModel" } as const;
    await using gateway = await startGateway({ registry: { models: [modelRecord("m"), projector, cut] } });
    const ids = async (path: string): Promise<unknown[]> =>
      (await idsOf(gateway, path)).filter((id) => ["m", "mmproj", "cut"].includes(String(id)));
    assert.deepEqual(await ids("/v1/models"), ["cut", "m"]);
    assert.deepEqual(await ids("/v1/models?all=1"), ["cut", "m", "mmproj"]);
    assert.deepEqual(new Set(await ids("/api/models")), new Set(["cut", "m", "mmproj"]));
    assert.equal((await fetch(`${gateway.url}/v1/models/mmproj`)).status, 200);
  });

  it("has a slot's context where clients look for it, and so has /props", async () => {
    const model = { ...modelRecord("m"), contextLength: 32_768, capabilities: ["chat" as const, "vision" as const] };
    const held = (of: SlotSketch): SlotSketch => ({
      ...of,
      status: { model: { ref: "m", origin: "spec" }, aliases: [], ...of.status },
    });
    await using gateway = await startGateway({
      slots: {
        derived: held({ port: 1, status: { decisions: { contextSize: { value: "8192", reason: "r" } } } }),
        given: held({ spec: { model: { default: "m", contextSize: 4096, parallel: 2 } } }),
        unknown: { port: 1 },
      },
      registry: { models: [model] },
    });
    for (const [id, tokens] of [
      ["derived", 8192],
      ["given", 4096],
    ] as const) {
      const { context_length: length, max_model_len: most, meta } = await read(gateway, `/v1/models/${id}`);
      assert.deepEqual([length, most, meta], [tokens, tokens, { n_ctx: tokens, n_ctx_train: 32_768 }], id);
    }
    assert.equal("context_length" in (await read(gateway, "/v1/models/unknown")), false);
    assert.deepEqual(await read(gateway, "/props?model=given"), {
      default_generation_settings: { n_ctx: 4096, params: {} },
      total_slots: 2,
      model_alias: "given",
      model_path: "m",
      modalities: { vision: true, audio: false },
      chat_template: "",
      build_info: "berth 0.0.0-test",
      is_sleeping: true,
    });
    assert.equal((await read(gateway, "/props?model=m"))["model_alias"], "derived");
    assert.equal((await fetch(`${gateway.url}/props?model=nobody`)).status, 404);
    assert.equal((await read(gateway, "/props"))["model_alias"], "primary");
    assert.equal(gateway.demand("given")?.lastRequestAt, undefined, "nothing is loaded for it");
    assert.deepEqual(await read(gateway, "/health"), { status: "ok" });
  });

  it("answers before any operator runs", async () => {
    await using gateway = await startGateway({ operator: "none" });
    assert.equal((await read(gateway, "/v1/models"))["object"], "list");
    assert.deepEqual(
      await listed(gateway),
      ["primary", "embed", "stt", "tts", "img"].map((name) => slot(name, null)),
    );
  });
});

describe("GET /v1/models/{id}", () => {
  it("is the list's item, with the characters of its name escaped or not", async () => {
    await using gateway = await site();
    const names = ["primary", "zeta", "qwen3:4b", "vendor/model:free", "acme/large:free"];
    for (const path of [...names, "qwen3%3A4b", "vendor%2Fmodel%3Afree", "acme%2Flarge:free"]) {
      const response = await fetch(`${gateway.url}/v1/models/${path}`);
      assert.equal(response.status, 200);
      assert.equal(Object.assign({ id: "" }, await response.json()).id, decodeURIComponent(path));
    }
  });

  it("is the slot's item for an alias, and for a slot that the list leaves out", async () => {
    await using gateway = await startGateway({
      slots: { coder: { port: 1, status: { aliases: ["gpt-4o"] } }, off: { spec: { enabled: false } } },
    });
    for (const [name, id] of [
      ["gpt-4o", "coder"],
      ["off", "off"],
    ]) {
      assert.equal((await read(gateway, `/v1/models/${name}`))["id"], id);
    }
  });

  it("suggests names that are close to an unknown name", async () => {
    await using gateway = await site();
    const { error } = await envelopeOf(await fetch(`${gateway.url}/v1/models/primray`));
    assert.deepEqual([error.code, error.details], ["model.not_found", { suggestions: ["primary"] }]);
    assert.match(error.message, /^no slot, model or upstream is called "primray"; did you mean primary\? known are /);
    const unknown = await envelopeOf(await fetch(`${gateway.url}/v1/models/nothing`));
    assert.match(
      unknown.error.message,
      /^no slot, model or upstream is called "nothing"; known are primary, zeta, qwen3:4b, /,
    );
    assert.doesNotMatch(unknown.error.message, /\boff\b/, "a disabled slot answers nothing");
  });

  it("is refused with an envelope where there is none", async () => {
    await using gateway = await site();
    for (const path of ["nobody", "vendor", "vendor/", "primary/x", "%ff", "x".repeat(2000)]) {
      const response = await fetch(`${gateway.url}/v1/models/${path}`);
      assert.ok(response.status === 404 || response.status === 400, `${path}: ${response.status}`);
      const { error } = await envelopeOf(response);
      assert.match(error.code, /^(model\.not_found|system\.not_found|dispatch\.invalid_request)$/);
      assert.ok(error.message.length < 400);
    }
  });
});
