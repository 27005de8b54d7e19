import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { openRequestStore } from "../../../src/store/state/requests.ts";
import type { OnRequest } from "../../../src/api/on-request.ts";
import type { SlotStatus } from "../../../src/api/status.ts";
import { routerModelSchema } from "../../../src/api/management/router-routes.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway, type SlotSketch, type TestGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";

const now = new Date().toISOString();
const onRequest: OnRequest = { usual: "small", refs: ["small", "large"], chosen: "small", since: now, failed: [] };
const choosing = (more: Partial<SlotStatus> = {}, sketch: SlotSketch = {}): SlotSketch => ({
  ...sketch,
  spec: { load: "onDemand", model: { default: "small", onRequest: ["large"], contextSize: 4096 }, ...sketch.spec },
  status: { model: { ref: "small", origin: "spec", served: "small" }, aliases: ["nick"], onRequest, ...more },
});
const registry = { models: ["small", "large", "unheld"].map((ref) => modelRecord(ref)) };

async function list(gateway: TestGateway): Promise<Map<string, unknown>> {
  const answer: unknown = await (await fetch(`${gateway.url}/models`)).json();
  const { data } = listSchema(answer);
  return new Map(data.map((item) => [item.id, item.status.value]));
}

function listSchema(answer: unknown) {
  assert.ok(typeof answer === "object" && answer !== null && "data" in answer && Array.isArray(answer.data));
  return { data: answer.data.map((item: unknown) => routerModelSchema.parse(item)) };
}

/** The events that a client of the stream has read so far. */
async function follow(gateway: TestGateway): Promise<{ seen: unknown[]; leave: () => void }> {
  const leaving = new AbortController();
  const response = await fetch(`${gateway.url}/models/sse`, { signal: leaving.signal });
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const seen: unknown[] = [];
  void (async () => {
    let text = "";
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      const lines = text.split("\n\n");
      text = lines.pop() ?? "";
      for (const line of lines) if (line.startsWith("data: ")) seen.push(JSON.parse(line.slice(6)));
    }
  })().catch(() => undefined);
  return { seen, leave: () => leaving.abort() };
}

describe("the models in the dialect of llama-server's router", () => {
  it("has an item for each model of a slot, with its names, state and modalities, and no path", async () => {
    await using gateway = await startGateway({ slots: { coder: choosing({}, { port: 9 }) }, registry });
    const response = await fetch(`${gateway.url}/models?reload=1`);
    const answer: unknown = await response.json();
    assert.deepEqual(
      listSchema(answer).data.map(({ created: _created, ...item }) => item),
      [
        {
          id: "small",
          aliases: ["coder", "nick"],
          object: "model",
          owned_by: "berth",
          status: { value: "loaded", args: ["--ctx-size", "4096"] },
          architecture: { input_modalities: ["text"], output_modalities: ["text"] },
          source: "preset",
          can_remove: false,
          berth: { slot: "coder", state: "ready" },
        },
        {
          id: "large",
          aliases: [],
          object: "model",
          owned_by: "berth",
          status: { value: "unloaded", args: ["--ctx-size", "4096"] },
          architecture: { input_modalities: ["text"], output_modalities: ["text"] },
          source: "preset",
          can_remove: false,
          berth: { slot: "coder", state: "ready" },
        },
      ],
    );
  });

  it("reports of each model whether it is loaded, loading, asleep, or failed and why", async () => {
    const failed = {
      ref: "large",
      reason: "Exited",
      message: "exited with code 3",
      failures: 1,
      at: now,
      retryAt: now,
    };
    const left = {
      at: now,
      from: "ready",
      to: "unloading",
      reason: "ScaledToZero",
      message: "no request needs it",
    } as const;
    const unloaded = { ...left, message: "unloaded by request; the next request loads it" } as const;
    const table: readonly [what: string, sketch: SlotSketch, small: object, large: object][] = [
      ["never loaded", choosing(), { value: "unloaded" }, { value: "unloaded" }],
      ["loaded", choosing({}, { port: 9 }), { value: "loaded" }, { value: "unloaded" }],
      ["asleep", choosing({ transitions: [left] }), { value: "sleeping" }, { value: "unloaded" }],
      ["unloaded by a person", choosing({ transitions: [unloaded] }), { value: "unloaded" }, { value: "unloaded" }],
      [
        "warming",
        choosing(
          { model: { ref: "large", origin: "request" }, onRequest: { ...onRequest, chosen: "large" } },
          { state: "warming" },
        ),
        { value: "unloaded" },
        { value: "loading", progress: { stages: ["starting", "warming"], current: "warming" } },
      ],
      [
        "warming for longer than the load before took",
        choosing(
          {
            model: { ref: "large", origin: "request" },
            onRequest: { ...onRequest, chosen: "large" },
            lastLoad: {
              startedAt: new Date(0).toISOString(),
              startSeconds: 1,
              previous: { startSeconds: 1, warmSeconds: 4 },
            },
          },
          { state: "warming" },
        ),
        { value: "unloaded" },
        { value: "loading", progress: { stages: ["starting", "warming"], current: "warming", value: 0.99 } },
      ],
      [
        "drained for another one",
        choosing({ onRequest: { ...onRequest, chosen: "large" }, processes: startedProcess }, { state: "unloading" }),
        { value: "loaded" },
        { value: "unloaded" },
      ],
      [
        "fetched",
        choosing(
          { onRequest: { ...onRequest, chosen: "large" }, progress: { bytesDone: 5, bytesTotal: 20 } },
          { state: "pulling" },
        ),
        { value: "unloaded" },
        { value: "downloading", progress: { large: { done: 5, total: 20 } } },
      ],
      [
        "fetched beside a loaded one",
        choosing(
          { onRequest: { ...onRequest, chosen: "large" }, progress: { bytesDone: 5, bytesTotal: 20 } },
          { port: 9 },
        ),
        { value: "loaded" },
        { value: "downloading", progress: { large: { done: 5, total: 20 } } },
      ],
      [
        "failed beside a loaded one",
        choosing({ onRequest: { ...onRequest, failed: [{ ...failed, isStalled: false }] } }, { port: 9 }),
        { value: "loaded" },
        { value: "unloaded", failed: true, exit_code: 3, reason: "Exited" },
      ],
      [
        "failed",
        choosing({ lastError: { reason: "DoesNotFit", message: "/secret", time: now } }, { state: "error" }),
        { value: "unloaded", failed: true, reason: "DoesNotFit" },
        { value: "unloaded" },
      ],
    ];
    await using gateway = await startGateway({ registry });
    for (const [what, sketch, small, large] of table) {
      await gateway.publish("coder", sketch);
      const { data } = listSchema(await (await fetch(`${gateway.url}/models`)).json());
      const states = data.map(({ status: { args: _args, ...status } }) => status);
      assert.deepEqual(states, [small, large], what);
    }
  });

  it("loads and unloads on request, by id or alias, and refuses invalid requests", async () => {
    const off: SlotSketch = {
      spec: { enabled: false, model: { default: "held-by-off" } },
      status: { model: { ref: "held-by-off", origin: "spec" } },
    };
    const late: SlotSketch = { spec: { load: "onDemand", model: {} }, status: { model: { origin: "spec" } } };
    await using gateway = await startGateway({ slots: { coder: choosing({}, { port: 9 }), off, late }, registry });
    await using requests = await openRequestStore(gateway.stateDir);
    const told = (): [string, string | undefined][] => requests.list("coder").map(({ kind, model }) => [kind, model]);
    const ask = async (path: string, body: unknown): Promise<string> => {
      const response = await gateway.post(path, body);
      if (response.status === 200) return JSON.stringify(await response.json());
      const { error } = await envelopeOf(response);
      return `${response.status} ${error.message}`;
    };
    assert.equal(await ask("/models/load", { model: "large" }), '{"success":true}');
    await until("the operator is asked", () => told().some(([kind, model]) => kind === "load" && model === "large"));
    assert.equal(await ask("/models/load", { model: "nick" }), "400 model small is already running: loaded");
    for (const path of ["/models/load", "/models/unload"])
      for (const model of ["off", "held-by-off"])
        assert.match(await ask(path, { model }), /^409 slot off is disabled/, `${path} ${model}`);
    assert.equal(await ask("/models/unload", { model: "late" }), "400 model late is not running");
    assert.equal(await ask("/models/load", { model: "late" }), '{"success":true}');
    assert.equal(await ask("/models/unload", { model: "late" }), '{"success":true}', "right after the load");
    assert.equal(await ask("/models/unload", { model: "nick", extra: 1 }), '{"success":true}');
    await until("the operator is asked", () => told().some(([kind]) => kind === "unload"));
    assert.match(await ask("/models/load", { model: "larg" }), /^404 no slot holds .*did you mean large\?$/);
    assert.match(await ask("/models/load", { model: "unheld" }), /^404 /);
    assert.match(await ask("/models/load", {}), /^400 /);
    assert.match(await ask("/models/load", "nonsense"), /^400 /);
    const form = await gateway.post("/models/unload", "model=small", {
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    assert.equal(form.status, 415);
    const foreign = await gateway.post(
      "/models/unload",
      { model: "small" },
      {
        headers: { "content-type": "text/plain", origin: "https://elsewhere.example" },
      },
    );
    assert.equal(foreign.status, 403);
    const json = { "content-type": "application/json", origin: "https://elsewhere.example" };
    assert.equal((await gateway.post("/models/load", { model: "small" }, { headers: json })).status, 403);
  });

  it("sends an event at each change, and none before", async () => {
    await using gateway = await startGateway({ slots: { coder: choosing() }, registry });
    const { seen, leave } = await follow(gateway);
    const large = { ...onRequest, chosen: "large" };
    const model = { ref: "large", origin: "request", served: "large" } as const;
    await gateway.publish(
      "coder",
      choosing({ onRequest: large, progress: { bytesDone: 1, bytesTotal: 4 } }, { state: "pulling" }),
    );
    await gateway.publish(
      "coder",
      choosing({ onRequest: large, progress: { bytesDone: 4, bytesTotal: 4 } }, { state: "pulling" }),
    );
    await gateway.publish("coder", choosing({ onRequest: large, model }, { state: "starting" }));
    await gateway.publish("coder", choosing({ onRequest: large, model }, { port: 9 }));
    await gateway.publish("reader", { port: 9, status: { model: { ref: "other", origin: "spec" } } });
    const progress = (current: string) => ({ stages: ["starting", "warming"], current });
    await until("all is told", () => seen.length >= 6);
    assert.deepEqual(
      seen,
      [
        {
          model: "large",
          event: "model_status",
          data: { status: "downloading", progress: { large: { done: 1, total: 4 } } },
        },
        { model: "large", event: "download_progress", data: { large: { done: 4, total: 4 } } },
        { model: "large", event: "download_finished" },
        { model: "large", event: "model_status", data: { status: "loading", progress: progress("starting") } },
        { model: "large", event: "model_status", data: { status: "loaded" } },
        { model: "*", event: "models_reload" },
        { model: "other", event: "model_status", data: { status: "loaded" } },
      ].slice(0, seen.length),
    );
    leave();
  });

  it("can be read as Open WebUI reads a llama.cpp connection: states in /v1/models, unload beside /v1", async () => {
    await using gateway = await startGateway({ slots: { coder: choosing({}, { port: 9 }) }, registry });
    await using requests = await openRequestStore(gateway.stateDir);
    // It is given the address of the API, and leaves out its last part to reach the router's own routes.
    const base = `${gateway.url}/v1`;
    const answer: unknown = await (await fetch(`${base}/models`)).json();
    assert.ok(typeof answer === "object" && answer !== null && "data" in answer && Array.isArray(answer.data));
    const states = new Map(
      answer.data.map((item: { id: string; status?: { value: string } }) => [item.id, item.status?.value]),
    );
    assert.deepEqual(
      ["coder", "small", "large", "unheld", "primary"].map((id) => states.get(id)),
      ["loaded", "loaded", "unloaded", "unloaded", "unloaded"],
    );
    const response = await fetch(`${base.replace(/\/v1$/, "")}/models/unload`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "small" }),
    });
    assert.deepEqual(await response.json(), { success: true });
    await until("the operator is asked", () => requests.list("coder").some(({ kind }) => kind === "unload"));
  });

  it("leaves out a model that is listed and unknown, except for a slot with its own engine", async () => {
    await using gateway = await startGateway({
      slots: { coder: choosing() },
      registry: { models: [modelRecord("small")] },
    });
    assert.deepEqual([...(await list(gateway)).keys()], ["small", "large"]);
    await gateway.publish("coder", choosing({}, { spec: { engine: "llama", command: ["serve"] } }));
    assert.deepEqual([...(await list(gateway)).keys()], ["small"]);
  });

  it("loads a model in a slot that holds or fetches it, and not in a slot that could be swapped to it", async () => {
    const held = { model: { ref: "large", origin: "spec" } } as const;
    await using gateway = await startGateway({ slots: { a: choosing(), b: { status: held } }, registry });
    await using requests = await openRequestStore(gateway.stateDir);
    const load = async (): Promise<number> => (await gateway.post("/models/load", { model: "large" })).status;
    assert.equal(await load(), 200);
    await until("the holder is asked", () => requests.list("b").some(({ kind }) => kind === "load"));
    assert.deepEqual(requests.list("a"), []);
    await gateway.publish("b", { state: "pulling", status: held });
    assert.equal(await load(), 400);
    assert.deepEqual(requests.list("a"), []);
  });

  it("loads and unloads the named slot, also where the list shows its model at another slot", async () => {
    const model = { ref: "small", origin: "spec" } as const;
    await using gateway = await startGateway({
      slots: { a: { port: 9, status: { model } }, b: { status: { model, aliases: ["nick"] } } },
      registry,
    });
    await using requests = await openRequestStore(gateway.stateDir);
    const ask = async (path: string, name: string): Promise<number> =>
      (await gateway.post(path, { model: name })).status;
    assert.equal(await ask("/models/load", "nick"), 200);
    await until("the slot is asked", () => requests.list("b").some(({ kind }) => kind === "load"));
    await gateway.publish("b", { port: 9, status: { model, aliases: ["nick"] } });
    assert.equal(await ask("/models/load", "b"), 400);
    assert.equal(await ask("/models/unload", "b"), 200);
    await until("the slot is asked", () => requests.list("b").some(({ kind }) => kind === "unload"));
    assert.deepEqual(requests.list("a"), []);
  });

  it("lists a model once, where two slots hold it, and a slot without a model by its name", async () => {
    const model = { ref: "small", origin: "spec" } as const;
    await using gateway = await startGateway({
      slots: {
        a: { status: { model } },
        b: { port: 9, status: { model } },
        c: { port: 9, spec: { model: {} }, status: { model: { origin: "spec" } } },
      },
      registry,
    });
    assert.deepEqual(
      [...(await list(gateway))],
      [
        ["small", "loaded"],
        ["c", "loaded"],
      ],
    );
  });
});

const startedProcess: SlotStatus["processes"] = [
  { role: "main", ordinal: 0, host: "127.0.0.1", port: 9, endpoint: "http://127.0.0.1:9", pid: 1, isReady: false },
];
