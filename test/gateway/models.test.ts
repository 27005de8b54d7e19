import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { isRecord } from "../../src/lib/record.ts";
import { modelRecord } from "../support/gateway.ts";
import { rowsOf, site, type Site } from "./management/fixture.ts";
import { specOf } from "./providers/fixture.ts";

const acme = { name: "acme", spec: specOf({ baseUrl: "http://127.0.0.1:1/v1", models: [{ ref: "acme/large:free" }] }) };
const qwen = { ...modelRecord("qwen3:4b"), created: 1234, capabilities: ["chat" as const] };
const holding = (ref: string) => ({ model: { ref, origin: "spec" } }) as const;

/** Every kind of entry, with names as real ones are. */
const everyKind: Parameters<typeof site>[0] = {
  slots: {
    primary: {
      port: 1,
      spec: { engine: "llama", model: { default: "qwen3:4b" } },
      status: { ...holding("qwen3:4b"), aliases: ["gpt-4o"], capabilities: ["chat", "completions"] },
    },
    zeta: { state: "starting", status: holding("gone") },
    coder: { spec: { enabled: false }, status: { model: { origin: "spec" }, capabilities: [] } },
  },
  registry: { models: [modelRecord("vendor/model:free"), qwen], upstreams: [acme] },
};

const idsOf = async (at: Site, path: string): Promise<unknown[]> => rowsOf(await at.got(path)).map(({ id }) => id);

/** The list. A model whose age nobody knows came with the gateway, which is said here by 0. */
async function listed(at: Site): Promise<unknown[]> {
  const { uptime_seconds: uptime } = await at.got("/api/status");
  const startedAt = Date.now() / 1000 - Number(uptime);
  const list = rowsOf(await at.got("/v1/models"));
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
const capabilities = ["chat", "completions", "embeddings", "messages", "responses"];

describe("GET /v1/models", () => {
  let at: Site;
  before(async () => {
    at = await site(everyKind);
  });
  after(() => at[Symbol.asyncDispose]());

  it("lists slots in the specification's order, other slots by name, the registry's models, and those of upstreams", async () => {
    assert.deepEqual(await listed(at), [
      slot("primary", "qwen3:4b", "ready", ["chat", "completions"], 1234),
      slot("embed", null),
      slot("stt", null),
      slot("tts", null),
      slot("img", null),
      slot("zeta", "gone", "starting", ["chat", "completions", "embeddings", "rerank"]),
      item("qwen3:4b", { kind: "model", state: "available", slot: "primary", capabilities: ["chat"] }, 1234, "loaded"),
      item("vendor/model:free", { kind: "model", state: "available", slot: null, capabilities: [] }, 1, "unloaded"),
      item("acme/large:free", { kind: "upstream", state: "unknown", slot: null, upstream: "acme", capabilities }),
    ]);
  });

  it("has an item for each name, with its characters escaped or not, for an alias, and for a slot that the list leaves out", async () => {
    const names = ["primary", "zeta", "qwen3:4b", "vendor/model:free", "acme/large:free", "coder"];
    for (const path of [...names, "qwen3%3A4b", "vendor%2Fmodel%3Afree", "acme%2Flarge:free"])
      assert.equal((await at.got(`/v1/models/${path}`))["id"], decodeURIComponent(path));
    assert.equal((await at.got("/v1/models/gpt-4o"))["id"], "primary");
  });

  it("suggests names that are close to an unknown name", async () => {
    const { is, message, details } = await at.refused("GET", "/v1/models/primray");
    assert.deepEqual([is, details], ["404 model.not_found", { suggestions: ["primary"] }]);
    assert.match(message, /^no slot, model or upstream is called "primray"; did you mean primary\? known are /);
    const unknown = await at.refused("GET", "/v1/models/nothing");
    assert.match(unknown.message, /^no slot, model .* "nothing"; known are primary, zeta, gpt-4o, qwen3:4b, /);
    assert.doesNotMatch(unknown.message, /\bcoder\b/, "a disabled slot answers nothing");
  });

  it("leaves out custom slots that cannot answer, and with ?available=1 every entry that cannot", async () => {
    const ids = (query: string): Promise<unknown[]> => idsOf(at, `/v1/models${query}`);
    const builtins = ["primary", "embed", "stt", "tts", "img"];
    const rest = ["qwen3:4b", "vendor/model:free", "acme/large:free"];
    assert.deepEqual(await ids("?all=1&limit=5"), [...builtins, "coder", "zeta", ...rest]);
    assert.deepEqual(await ids(""), [...builtins, "zeta", ...rest]);
    assert.deepEqual(await ids("?available=1"), ["primary", "zeta", "qwen3:4b", "acme/large:free"]);
    const stalled = { type: "Stalled", status: "True", reason: "ModelNotFound", message: "m" } as const;
    const times = { observedGeneration: 1, lastTransitionTime: new Date().toISOString() };
    const hint = async (): Promise<string> => (await at.refused("GET", "/v1/models/nothing")).message;
    assert.match(await hint(), /, zeta, .*, gone, /);
    const conditions = [{ ...stalled, ...times }];
    await at.publish("zeta", { state: "error", status: { ...holding("gone"), conditions } });
    assert.deepEqual(await ids(""), [...builtins, ...rest], "it waits for a person");
    assert.match(await hint(), /, zeta, (?!.*\bgone\b)/, "no model is called so");
    const retried = { failures: 1, nextRetryAt: new Date(Date.now() + 2000).toISOString(), conditions: [] };
    await at.publish("zeta", { state: "error", status: retried });
    assert.deepEqual(await ids(""), [...builtins, "zeta", ...rest], "it is tried again in a moment");
  });
});

it("/v1/models has every id once: a slot hides a model of its name, and a provider's model hides a model that no slot holds", async () => {
  const models = ["coder", "spare", "held"].map(modelRecord);
  const spec = specOf({ baseUrl: "http://127.0.0.1:1/v1", models: models.map(({ ref }) => ({ ref })) });
  const registry = { models, upstreams: [{ name: "acme", spec }] };
  await using at = await site({ slots: { coder: { port: 1, status: holding("held") } }, registry });
  const kinds = rowsOf(await at.got("/v1/models")).map(({ id, berth }) => [id, isRecord(berth) && berth["kind"]]);
  assert.deepEqual(Object.fromEntries(kinds.slice(5)), { coder: "slot", held: "model", spare: "upstream" });
});

it("/v1/models has files that are no models with ?all=1 alone, and /api/models shows them", async () => {
  const projector = {
    ...modelRecord("mmproj"),
    state: "invalid",
    reason: "NotAModel",
    message: "a projector",
  } as const;
  const cut = { ...modelRecord("cut"), state: "invalid", reason: "TruncatedModel" } as const;
  await using at = await site({ registry: { models: [modelRecord("m"), projector, cut] } });
  const ids = async (path: string): Promise<unknown[]> =>
    (await idsOf(at, path))
      .map(String)
      .filter((id) => ["m", "mmproj", "cut"].includes(id))
      .toSorted();
  assert.deepEqual(await ids("/v1/models"), ["cut", "m"]);
  for (const path of ["/v1/models?all=1", "/api/models"]) assert.deepEqual(await ids(path), ["cut", "m", "mmproj"]);
  await at.got("/v1/models/mmproj");
});

it("/v1/models has a slot's context where clients look for it, and so has /props", async () => {
  const model = { ...modelRecord("m"), contextLength: 32_768, capabilities: ["chat" as const, "vision" as const] };
  const status = { ...holding("m"), aliases: [] };
  const decisions = { contextSize: { value: "8192", reason: "r" } };
  const spec = { model: { default: "m", contextSize: 4096, parallel: 2 } };
  await using at = await site({
    slots: { derived: { port: 1, status: { ...status, decisions } }, given: { spec, status }, unknown: { port: 1 } },
    registry: { models: [model] },
  });
  for (const [id, tokens] of Object.entries({ derived: 8192, given: 4096 }))
    assert.partialDeepStrictEqual(await at.got(`/v1/models/${id}`), {
      context_length: tokens,
      max_model_len: tokens,
      meta: { n_ctx: tokens, n_ctx_train: 32_768 },
    });
  assert.equal("context_length" in (await at.got("/v1/models/unknown")), false);
  assert.deepEqual(await at.got("/props?model=given"), {
    default_generation_settings: { n_ctx: 4096, params: {} },
    total_slots: 2,
    model_alias: "given",
    model_path: "m",
    modalities: { vision: true, audio: false },
    chat_template: "",
    build_info: "berth 0.0.0-test",
    is_sleeping: true,
  });
  assert.equal((await at.got("/props?model=m"))["model_alias"], "derived");
  assert.equal((await at.send("GET", "/props?model=nobody")).status, 404);
  assert.equal((await at.got("/props"))["model_alias"], "primary");
  assert.equal(at.demand("given")?.lastRequestAt, undefined, "nothing is loaded for it");
  assert.deepEqual(await at.got("/health"), { status: "ok" });
});
