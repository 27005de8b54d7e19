import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { routerModelSchema } from "../../../src/api/management/router-routes.ts";
import type { OnRequest } from "../../../src/api/on-request.ts";
import type { SlotStatus } from "../../../src/api/status.ts";
import { modelRecord, type SlotSketch } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { followEvents } from "./event-reader.ts";
import { rowsOf, site, type Site } from "./fixture.ts";

const now = new Date().toISOString();
const onRequest: OnRequest = { usual: "small", refs: ["small", "large"], chosen: "small", since: now, failed: [] };
const chosen: OnRequest = { ...onRequest, chosen: "large" };
const large = { ref: "large", origin: "request", served: "large" } as const;
const choosing = (more: Partial<SlotStatus> = {}, sketch: SlotSketch = {}): SlotSketch => ({
  ...sketch,
  spec: { load: "onDemand", model: { default: "small", onRequest: ["large"], contextSize: 4096 }, ...sketch.spec },
  status: { model: { ref: "small", origin: "spec", served: "small" }, aliases: ["nick"], onRequest, ...more },
});
const registry = { models: ["small", "large", "unheld"].map((ref) => modelRecord(ref)) };
const small = { ref: "small", origin: "spec" } as const;

async function list(at: Site) {
  return rowsOf(await at.got("/models")).map((item) => routerModelSchema.parse(item));
}

async function statesOf(at: Site): Promise<Record<string, string>> {
  return Object.fromEntries((await list(at)).map(({ id, status }) => [id, status.value]));
}

/** The answer of a POST: 200, or status and message of the refusal. */
async function ask(at: Site, path: string, body: unknown): Promise<string> {
  const response = await at.post(path, body);
  if (response.status !== 200) {
    const { error }: { error: { message: string } } = JSON.parse(await response.text());
    return `${response.status} ${error.message}`;
  }
  assert.deepEqual(await response.json(), { success: true });
  return "200";
}

/** Until the operator is asked so for that slot. */
async function untilAsked(at: Site, slot: string, kind: string, model?: string): Promise<void> {
  await until(`${slot} is asked to ${kind}`, async () =>
    (await at.requests(slot)).some((request) => request.kind === kind && request.model === model),
  );
}

describe("the models in the dialect of llama-server's router", () => {
  it("has an item for each model of a slot, with its names, state and modalities, and no path", async () => {
    await using at = await site({ slots: { coder: choosing({}, { port: 9 }) }, registry });
    const item = {
      object: "model",
      owned_by: "berth",
      architecture: { input_modalities: ["text"], output_modalities: ["text"] },
      source: "preset",
      can_remove: false,
      berth: { slot: "coder", state: "ready" },
    };
    const status = (value: string) => ({ value, args: ["--ctx-size", "4096"] });
    assert.deepEqual(
      rowsOf(await at.got("/models?reload=1")).map(({ created: _created, ...rest }) => rest),
      [
        { id: "small", aliases: ["coder", "nick"], status: status("loaded"), ...item },
        { id: "large", aliases: [], status: status("unloaded"), ...item },
      ],
    );
    // As Open WebUI reads a llama.cpp connection.
    const rows = new Map(rowsOf(await at.got("/v1/models")).map((row) => [row["id"], row["status"]]));
    const values = { coder: "loaded", small: "loaded", large: "unloaded", unheld: "unloaded" };
    for (const [id, value] of Object.entries(values)) assert.partialDeepStrictEqual(rows.get(id), { value }, id);
  });

  it("reports of each model whether it is loaded, loading, asleep, or failed and why", async () => {
    const failure = { ref: "large", reason: "Exited", message: "exited with code 3", failures: 1 };
    const stalled = { ...onRequest, failed: [{ ...failure, at: now, retryAt: now, isStalled: false }] };
    const left = (reason: string): Partial<SlotStatus> => ({
      transitions: [{ at: now, from: "ready", to: "unloading", reason, message: "no request needs it" }],
    });
    const byPerson = left("UnloadedUntilRequest");
    const previous = { startSeconds: 1, warmSeconds: 4 };
    const lastLoad = { startedAt: new Date(0).toISOString(), startSeconds: 1, previous };
    const fetching = { onRequest: chosen, progress: { bytesDone: 5, bytesTotal: 20 } };
    const lastError = { reason: "DoesNotFit", message: "/secret", time: now } as const;
    const started: SlotStatus["processes"] = [
      { role: "main", ordinal: 0, host: "127.0.0.1", port: 9, endpoint: "http://127.0.0.1:9", pid: 1, isReady: false },
    ];
    const swapping = { model: large, onRequest: chosen };
    const stages = { stages: ["starting", "warming"], current: "warming" };
    const loading = { value: "loading", progress: stages };
    const late = { value: "loading", progress: { ...stages, value: 0.99 } };
    const downloading = { value: "downloading", progress: { large: { done: 5, total: 20 } } };
    const [off, on, sleeping] = ["unloaded", "loaded", "sleeping"].map((value) => ({ value }));
    const why = { value: "unloaded", failed: true, exit_code: 3, reason: "Exited" };
    const failed = { value: "unloaded", failed: true, reason: "DoesNotFit" };
    const table: readonly [what: string, sketch: SlotSketch, small: object | undefined, large: object | undefined][] = [
      ["never loaded", choosing(), off, off],
      ["loaded", choosing({}, { port: 9 }), on, off],
      ["asleep", choosing(left("ScaledToZero")), sleeping, off],
      ["unloaded by a person", choosing(byPerson), off, off],
      ["warming", choosing(swapping, { state: "warming" }), off, loading],
      ["warming for longer than the load before", choosing({ ...swapping, lastLoad }, { state: "warming" }), off, late],
      ["drained for another", choosing({ onRequest: chosen, processes: started }, { state: "unloading" }), on, off],
      ["fetched", choosing(fetching, { state: "pulling" }), off, downloading],
      ["fetched beside a loaded one", choosing(fetching, { port: 9 }), on, downloading],
      ["failed beside a loaded one", choosing({ onRequest: stalled }, { port: 9 }), on, why],
      ["failed", choosing({ lastError }, { state: "error" }), failed, off],
    ];
    await using at = await site({ registry });
    for (const [what, sketch, first, second] of table) {
      await at.publish("coder", sketch);
      const states = (await list(at)).map(({ status: { args: _args, ...status } }) => status);
      assert.deepEqual(states, [first, second], what);
    }
  });

  it("loads and unloads on request, by id or alias, and refuses invalid requests", async () => {
    const off: SlotSketch = {
      spec: { enabled: false, model: { default: "held-by-off" } },
      status: { model: { ref: "held-by-off", origin: "spec" } },
    };
    const late: SlotSketch = { spec: { load: "onDemand", model: {} }, status: { model: { origin: "spec" } } };
    await using at = await site({ slots: { coder: choosing({}, { port: 9 }), off, late }, registry });
    assert.equal(await ask(at, "/models/load", { model: "large" }), "200");
    await untilAsked(at, "coder", "load", "large");
    assert.equal(await ask(at, "/models/load", { model: "nick" }), "400 model small is already running: loaded");
    for (const path of ["/models/load", "/models/unload"])
      for (const model of ["off", "held-by-off"])
        assert.match(await ask(at, path, { model }), /^409 slot off is disabled/, `${path} ${model}`);
    assert.equal(await ask(at, "/models/unload", { model: "late" }), "400 model late is not running");
    assert.equal(await ask(at, "/models/load", { model: "late" }), "200");
    assert.equal(await ask(at, "/models/unload", { model: "late" }), "200", "right after the load");
    assert.equal(await ask(at, "/models/unload", { model: "nick", extra: 1 }), "200");
    await untilAsked(at, "coder", "unload");
    assert.match(await ask(at, "/models/load", { model: "larg" }), /^404 no slot holds .*did you mean large\?$/);
    assert.match(await ask(at, "/models/load", { model: "unheld" }), /^404 /);
    assert.match(await ask(at, "/models/load", {}), /^400 /);
    assert.match(await ask(at, "/models/load", "nonsense"), /^400 /);
    const origin = "https://elsewhere.example";
    for (const [status, headers] of [
      [415, { "content-type": "application/x-www-form-urlencoded" }],
      [403, { "content-type": "application/json", origin }],
    ] as const)
      assert.equal((await at.post("/models/unload", { model: "small" }, { headers })).status, status);
  });

  it("sends an event at each change, and none before", async () => {
    await using at = await site({ slots: { coder: choosing() }, registry });
    using reader = await followEvents(at.url, "/models/sse");
    for (const bytesDone of [1, 4])
      await at.publish(
        "coder",
        choosing({ onRequest: chosen, progress: { bytesDone, bytesTotal: 4 } }, { state: "pulling" }),
      );
    await at.publish("coder", choosing({ onRequest: chosen, model: large }, { state: "starting" }));
    await at.publish("coder", choosing({ onRequest: chosen, model: large }, { port: 9 }));
    await at.publish("reader", { port: 9, status: { model: { ref: "other", origin: "spec" } } });
    const status = (model: string, data: object) => ({ model, event: "model_status", data });
    const loading = { stages: ["starting", "warming"], current: "starting" };
    await until("all is told", () => reader.events.length >= 7);
    assert.deepEqual(
      reader.events.map(({ data }) => data),
      [
        status("large", { status: "downloading", progress: { large: { done: 1, total: 4 } } }),
        { model: "large", event: "download_progress", data: { large: { done: 4, total: 4 } } },
        { model: "large", event: "download_finished" },
        status("large", { status: "loading", progress: loading }),
        status("large", { status: "loaded" }),
        { model: "*", event: "models_reload" },
        status("other", { status: "loaded" }),
      ],
    );
  });

  it("loads a model in a slot that holds or fetches it, and not in a slot that could be swapped to it", async () => {
    const held = { model: { ref: "large", origin: "spec" } } as const;
    await using at = await site({ slots: { a: choosing(), b: { status: held } }, registry });
    assert.equal(await ask(at, "/models/load", { model: "large" }), "200");
    await untilAsked(at, "b", "load");
    await at.publish("b", { state: "pulling", status: held });
    assert.match(await ask(at, "/models/load", { model: "large" }), /^400 /);
    assert.deepEqual(await at.requests("a"), []);
  });

  it("leaves out a model that is listed and unknown, except for a slot with its own engine", async () => {
    await using at = await site({ slots: { coder: choosing() }, registry: { models: [modelRecord("small")] } });
    assert.deepEqual(Object.keys(await statesOf(at)), ["small", "large"]);
    await at.publish("coder", choosing({}, { spec: { engine: "llama", command: ["serve"] } }));
    assert.deepEqual(Object.keys(await statesOf(at)), ["small"]);
  });

  it("lists a model once where two slots hold it, and loads and unloads the slot that is named", async () => {
    const status = { model: small, aliases: ["nick"] };
    const bare: SlotSketch = { port: 9, spec: { model: {} }, status: { model: { origin: "spec" } } };
    await using at = await site({
      slots: { a: { port: 9, status: { model: small } }, b: { status }, c: bare },
      registry,
    });
    assert.deepEqual(await statesOf(at), { small: "loaded", c: "loaded" });
    assert.equal(await ask(at, "/models/load", { model: "nick" }), "200");
    await untilAsked(at, "b", "load");
    await at.publish("b", { port: 9, status });
    assert.match(await ask(at, "/models/load", { model: "b" }), /^400 /);
    assert.equal(await ask(at, "/models/unload", { model: "b" }), "200");
    await untilAsked(at, "b", "unload");
    assert.deepEqual(await at.requests("a"), []);
  });
});
