import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Step } from "../../../src/api/plan.ts";
import type { SlotStatus } from "../../../src/api/status.ts";
import { planView } from "../../../src/gateway/management/views.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { openRequestStore } from "../../../src/store/state/requests.ts";
import { modelRecord, publishedSlot, startGateway, type SlotSketch, type TestGateway } from "../../support/gateway.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";

type Json = Readonly<Record<string, unknown>>;

async function send(gateway: TestGateway, method: string, path: string, body?: unknown): Promise<Response> {
  return await fetch(new URL(path, gateway.url), {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
}

/** Status, code and details of a refusal. */
async function refused(answer: Promise<Response>): Promise<[status: number, code: string, details: Json | undefined]> {
  const response = await answer;
  const { error } = await envelopeOf(response);
  return [response.status, error.code, error.details];
}

/** What was asked of the operator, by kind. */
async function requestsOf(gateway: TestGateway): Promise<Map<string, Json>> {
  const directory = join(gateway.stateDir, "requests");
  const found = new Map<string, Json>();
  for (const file of await readdir(directory)) {
    // What is on its way is not there yet: another may come before it.
    if (file.startsWith(".") || !file.endsWith(".json")) continue;
    const request: unknown = JSON.parse(await readFile(join(directory, file), "utf8"));
    if (isRecord(request)) found.set(String(request["kind"]), request);
  }
  return found;
}

const written = (gateway: TestGateway, file: string): Promise<string> =>
  readFile(join(gateway.stateDir, "config", file), "utf8");
const declare = async (gateway: TestGateway, file: string, text: string): Promise<void> => {
  await mkdir(join(gateway.stateDir, "config/slots"), { recursive: true });
  await writeFile(join(gateway.stateDir, "config", file), text);
};

describe("requests to a slot", () => {
  it("are stored for the operator and answered with the slot", async () => {
    await using gateway = await startGateway({
      slots: { primary: { port: 1 } },
      registry: { models: [modelRecord("other")] },
    });
    for (const [verb, kind] of [
      ["load", "load"],
      ["unload", "unload"],
      ["restart", "restart"],
    ] as const) {
      const answer = await send(gateway, "POST", `/api/slots/primary/${verb}`);
      assert.equal(answer.status, 202);
      const slot: unknown = await answer.json();
      assert.ok(isRecord(slot) && slot["name"] === "primary");
      const request = (await requestsOf(gateway)).get(kind);
      assert.equal(request?.["slot"], "primary");
      assert.equal(request["specHash"], "test");
    }
    assert.equal((await send(gateway, "POST", "/api/slots/primary/swap", { model: "other" })).status, 202);
    const swap = (await requestsOf(gateway)).get("swap-model");
    assert.equal(swap?.["model"], "other");
    assert.equal(swap["specModel"], "test-model");
    assert.equal((await send(gateway, "POST", "/api/slots/primary/swap", { reset: true })).status, 202);
    assert.equal((await requestsOf(gateway)).get("swap-model")?.["model"], undefined);
    assert.equal((await send(gateway, "POST", "/api/models/other/assign", { slot: "primary" })).status, 202);
    assert.equal((await requestsOf(gateway)).get("swap-model")?.["model"], "other");
  });

  it("wait until the operator has taken them up and the slot has settled", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    let isAnswered = false;
    const answer = later(
      send(gateway, "POST", "/api/slots/primary/restart?wait=ready&timeout=600").finally(() => {
        isAnswered = true;
      }),
    );
    const token = await until(
      "the request is written",
      async () => (await requestsOf(gateway)).get("restart")?.["token"],
    );
    const handledRequests = { restart: String(token) };
    await gateway.publish("primary", { state: "starting", status: { handledRequests } });
    assert.equal(isAnswered, false);
    await gateway.publish("primary", { port: 1, status: { handledRequests } });
    const slot: unknown = await (await answer).json();
    assert.ok(isRecord(slot) && slot["state"] === "ready");
  });

  it("wait no longer than the request of another client that has replaced them", { timeout: 180_000 }, async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    const ask = (): Promise<Response> => send(gateway, "POST", "/api/slots/primary/restart?wait=ready&timeout=600");
    const tokenOf = async (): Promise<unknown> => (await requestsOf(gateway)).get("restart")?.["token"];
    const first = later(ask());
    const overtaken = await until("the request is written", tokenOf);
    const second = later(ask());
    const token = await until("the other is written", async () => {
      const found = await tokenOf();
      return found === overtaken ? undefined : found;
    });
    await gateway.publish("primary", { port: 1, status: { handledRequests: { restart: String(token) } } });
    assert.deepEqual([(await first).status, (await second).status], [202, 202]);
  });

  it("answer with the slot's present state at their time limit", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "starting" } } });
    const answer = await send(gateway, "POST", "/api/slots/primary/load?wait=ready&timeout=1");
    assert.equal(answer.status, 202);
    const slot: unknown = await answer.json();
    assert.ok(isRecord(slot) && slot["state"] === "starting");
  });

  it("are refused where they make no sense", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 }, coder: { spec: { enabled: false } } } });
    const disabled = { slot: "coder", state: "offline", reason: "Disabled" };
    for (const verb of ["load", "unload", "restart"]) {
      assert.deepEqual(await refused(send(gateway, "POST", `/api/slots/coder/${verb}`)), [
        409,
        "slot.disabled",
        disabled,
      ]);
      const [status, code] = await refused(send(gateway, "POST", `/api/slots/nobody/${verb}`));
      assert.deepEqual([status, code], [404, "slot.not_found"]);
    }
    assert.deepEqual(await refused(send(gateway, "POST", "/api/slots/codr/load")), [
      404,
      "slot.not_found",
      { suggestions: ["coder"] },
    ]);
    const unconfigured = await send(gateway, "POST", "/api/slots/stt/load");
    const { error } = await envelopeOf(unconfigured);
    assert.match(error.message, /no manifest configures it$/);
    assert.equal(error.details?.["reason"], "NotConfigured");
    const swap = (body: Json): Promise<[number, string, Json | undefined]> =>
      refused(send(gateway, "POST", "/api/slots/primary/swap", body));
    const choose = { path: ["model"], message: "name a model, or reset: true" };
    assert.deepEqual(await swap({}), [400, "dispatch.invalid_request", choose]);
    assert.deepEqual(await swap({ model: "m", reset: true }), [400, "dispatch.invalid_request", choose]);
    assert.deepEqual((await swap({ model: "m", force: 1 })).slice(0, 2), [400, "dispatch.invalid_request"]);
    const [status, code] = await refused(send(gateway, "POST", "/api/models/test-model/assign", { slot: "nobody" }));
    assert.deepEqual([status, code], [404, "slot.not_found"]);
    assert.equal((await requestsOf(gateway)).size, 0);
  });

  it("get a retry time while the operator has not read every manifest yet", async () => {
    await using gateway = await startGateway({ slots: {}, operator: { isSettled: false } });
    const details = { slot: "coder", state: "offline", reason: "NotPublished" };
    for (const [method, path] of [
      ["POST", "/api/slots/coder/load"],
      ["GET", "/api/slots/coder"],
    ] as const) {
      const response = await send(gateway, method, path);
      assert.equal(response.headers.get("retry-after"), "2");
      const { error } = await envelopeOf(response);
      assert.deepEqual([response.status, error.code, error.details], [503, "slot.not_ready", details]);
    }
    assert.deepEqual((await refused(send(gateway, "GET", "/api/slots/Not%20A%20Name")))[1], "slot.not_found");
    await gateway.publishOperator();
    await until("it has looked", async () => (await send(gateway, "GET", "/api/slots/coder")).status === 404);
  });

  it("are refused with the manifest's fault where the manifest was never valid", async () => {
    const message = "/c/slots/broken.yaml:2:1: Tabs are not allowed as indentation";
    const lastTransitionTime = "2026-01-01T00:00:00.000Z";
    const claim = { reason: "InvalidSpec", message, observedGeneration: 1, lastTransitionTime };
    const conditions = [
      { type: "Ready", status: "False", ...claim },
      { type: "Available", status: "False", ...claim },
      { type: "Stalled", status: "True", ...claim },
    ] as const;
    await using gateway = await startGateway({
      slots: { broken: { state: "error", spec: { enabled: false }, status: { conditions: [...conditions] } } },
      registry: { models: [modelRecord("other")] },
    });
    for (const [verb, body] of [["load"], ["restart"], ["swap", { model: "other", write: true }]] as const) {
      assert.deepEqual(await refused(send(gateway, "POST", `/api/slots/broken/${verb}`, body)), [
        422,
        "config.invalid",
        { path: [], message },
      ]);
    }
  });

  it("are refused for an unknown model", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1, spec: { engine: "llama" } } } });
    const answer = await refused(send(gateway, "POST", "/api/slots/primary/swap", { model: "nope" }));
    assert.deepEqual(answer, [404, "model.not_found", undefined]);
  });

  it("are refused for an invalid name of a model, on a custom slot too", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    const answer = await refused(send(gateway, "POST", "/api/models/%20/assign", { slot: "primary" }));
    assert.deepEqual(answer, [404, "model.not_found", undefined]);
  });

  it("change one line of the manifest where they are to be written", async () => {
    await using gateway = await startGateway({
      slots: { primary: { port: 1 } },
      registry: { models: [modelRecord("other")] },
    });
    const manifest = '# ours\nengine = "custom"\ncommand = ["run"]\n\n[model]\ndefault = "test-model" # small\n';
    await declare(gateway, "slots/primary.toml", manifest);
    // An earlier swap must not win over what is written down for good.
    await send(gateway, "POST", "/api/slots/primary/swap", { model: "test-model" });
    assert.equal((await requestsOf(gateway)).size, 1);
    const answer = await send(gateway, "POST", "/api/slots/primary/swap", { model: "other", write: true });
    assert.equal(answer.status, 202);
    assert.equal(await written(gateway, "slots/primary.toml"), manifest.replace("test-model", "other"));
    assert.equal((await requestsOf(gateway)).size, 0);
    const [status, code] = await refused(
      send(gateway, "POST", "/api/slots/primary/swap", { reset: true, write: true }),
    );
    assert.deepEqual([status, code], [400, "dispatch.invalid_request"]);
  });
});

describe("a slot's memory", () => {
  it("is the sum of its processes' memory, and null where that is unknown", async () => {
    const startedAt = new Date(Date.now() - process.uptime() * 1000).toISOString();
    const running = (role: "main" | "rerank", more: object): SlotStatus["processes"][number] => ({
      role,
      ordinal: 0,
      host: "127.0.0.1",
      port: 1,
      endpoint: "http://127.0.0.1:1",
      isReady: true,
      ...more,
    });
    const own = { pid: process.pid, startedAt };
    await using gateway = await startGateway({
      slots: {
        primary: { state: "ready", status: { processes: [running("main", own), running("rerank", own)] } },
        // The pid of another process, in another namespace perhaps.
        coder: { state: "ready", status: { processes: [running("main", { pid: 1, startedAt })] } },
        boxed: { state: "ready", status: { processes: [running("main", { containerId: "0123", startedAt })] } },
      },
    });
    const memory = async (name: string): Promise<unknown> => {
      const slot: unknown = await (await send(gateway, "GET", `/api/slots/${name}`)).json();
      return isRecord(slot) ? slot["memory_bytes"] : undefined;
    };
    const { rss } = process.memoryUsage();
    const told = Number(await memory("primary"));
    assert.ok(told > rss && told < 3 * rss, `${told} of twice ${rss}`);
    assert.deepEqual([await memory("coder"), await memory("boxed"), await memory("embed")], [null, null, null]);
    await gateway.publishOperator({ heartbeat: new Date(Date.now() - 60_000).toISOString() });
    await until("the operator is lost", async () => (await memory("primary")) === null);
  });
});

it("a slot that became ready at a later time than the clock has now is ready for no time", async () => {
  const readySince = new Date(Date.now() + 3600_000).toISOString();
  await using gateway = await startGateway({ slots: { primary: { state: "ready", status: { readySince } } } });
  const slot: unknown = await (await send(gateway, "GET", "/api/slots/primary")).json();
  assert.ok(isRecord(slot));
  assert.equal(slot["uptime_seconds"], 0);
});

it("a slot shows its engine's devices and memory, and null where they are unknown", async () => {
  const compute = {
    devices: ["CUDA0"],
    layersOffloaded: 29,
    layersTotal: 33,
    buffers: [{ device: "CUDA0", bytes: 9 }],
  };
  const memory = { hostBytes: 7, devices: [{ id: "0000:00:06.0", bytes: 9 }] };
  await using gateway = await startGateway({ slots: { primary: { state: "ready", status: { compute, memory } } } });
  const told = async (name: string): Promise<unknown> => {
    const slot: unknown = await (await send(gateway, "GET", `/api/slots/${name}`)).json();
    return isRecord(slot) ? [slot["compute"], slot["memory"]] : undefined;
  };
  assert.deepEqual(await told("primary"), [
    { devices: ["CUDA0"], layers_offloaded: 29, layers_total: 33, buffers: [{ device: "CUDA0", bytes: 9 }] },
    { host_bytes: 7, devices: [{ id: "0000:00:06.0", bytes: 9 }] },
  ]);
  assert.deepEqual(await told("embed"), [null, null]);
});

describe("the text of a plan", () => {
  it("says in how many seconds a step is due", () => {
    const at = (ms: number): string => new Date(1_000_000 + ms).toISOString();
    const steps: Step[] = [
      { do: "wait", reason: "failure 9 in a row; next try", until: at(249_001) },
      { do: "wait", reason: "the engine loads its model" },
      { do: "wait", reason: "next try", until: at(-5000) },
      { do: "drain", reason: "it is unloaded", deadline: at(30_000) },
    ];
    const plan = { reason: "Exited", message: "exit code 1", steps };
    const published = { ...publishedSlot("coder", { state: "error" }, 1), plan };
    assert.equal(
      planView({ name: "coder", published }, { now: 1_000_000 }).text,
      [
        "coder: Exited: exit code 1",
        "  1. wait: failure 9 in a row; next try in 4m10s",
        "  2. wait: the engine loads its model",
        "  3. wait: next try in 0s",
        "  4. drain: it is unloaded, at most 30s more",
        "",
      ].join("\n"),
    );
  });
});

describe("a slot that is deleted", () => {
  it("refuses requests, unless it has been declared again meanwhile", async () => {
    await using gateway = await startGateway();
    const leaving = publishedSlot("coder", { state: "unloading", port: 1 }, 1);
    const plan = { reason: "Deleted", message: "its manifest is gone", steps: [] };
    await (await openPublisher(gateway.stateDir)).writeSlot({ ...leaving, plan });
    await until("the gateway knows it", () => gateway.running.seenRevision("coder") === 1);
    for (const [what, body] of [["load"], ["unload"], ["restart"], ["swap", { reset: true }]] as const) {
      const [status, code, details] = await refused(send(gateway, "POST", `/api/slots/coder/${what}`, body));
      assert.deepEqual([status, code], [409, "slot.illegal_transition"], what);
      assert.deepEqual(details, { slot: "coder", state: "unloading", reason: "Deleted" });
    }
    assert.equal((await send(gateway, "PUT", "/api/slots/coder", { model: { default: "m" } })).status, 201);
    assert.equal((await send(gateway, "POST", "/api/slots/coder/load")).status, 202);
  });

  it("is no longer waited for once it is gone", { timeout: 180_000 }, async () => {
    await using gateway = await startGateway({ slots: { coder: { port: 1 } } });
    const waiting = later(refused(send(gateway, "POST", "/api/slots/coder/restart?wait=ready&timeout=600")));
    await using requests = await openRequestStore(gateway.stateDir);
    await until("it is asked", () => requests.list("coder").length === 1);
    await (await openPublisher(gateway.stateDir)).deleteSlot("coder");
    assert.deepEqual((await waiting).slice(0, 2), [404, "slot.not_found"]);
  });
});

describe("a slot's manifest", () => {
  it("is created, replaced and removed", async () => {
    await using gateway = await startGateway({ slots: { coder: { port: 1 } } });
    const spec = { load: "onDemand", model: { default: "m" } };
    const created = await send(gateway, "POST", "/api/slots", { name: "coder", ...spec, labels: { team: "x" } });
    assert.equal(created.status, 201);
    assert.equal(
      await written(gateway, "slots/coder.toml"),
      'load = "onDemand"\n\n[model]\ndefault = "m"\n\n[labels]\nteam = "x"\n',
    );
    const manifest = {
      apiVersion: "berth.dev/v1alpha1",
      kind: "Slot",
      metadata: { name: "coder" },
      spec: { ...spec, pinned: false },
    };
    assert.equal((await send(gateway, "PUT", "/api/slots/coder", manifest)).status, 202);
    assert.match(await written(gateway, "slots/coder.toml"), /^load = "onDemand"\npinned = false\n/);
    assert.equal((await send(gateway, "PUT", "/api/slots/coder", manifest)).status, 202);
    const removed = await send(gateway, "DELETE", "/api/slots/coder");
    assert.equal(removed.status, 202);
    assert.deepEqual(await readdir(join(gateway.stateDir, "config/slots")), []);
    assert.equal((await send(gateway, "PUT", "/api/slots/coder", spec)).status, 201);
  });

  it("is not waited for after another manifest has replaced it", { timeout: 180_000 }, async () => {
    await using gateway = await startGateway({ slots: { coder: { port: 1 } } });
    const put = (query: string, idleSeconds: number): Promise<Response> =>
      send(gateway, "PUT", `/api/slots/coder${query}`, { load: "onDemand", idleSeconds, model: { default: "m" } });
    const first = later(put("?wait=ready&timeout=600", 5));
    await until("it is written", async () => (await written(gateway, "slots/coder.toml")).includes("idle_seconds = 5"));
    const second: unknown = await (await put("", 6)).json();
    assert.ok(isRecord(second));
    const publisher = await openPublisher(gateway.stateDir);
    const seen = publishedSlot("coder", { port: 1 }, 2);
    await publisher.writeSlot({ ...seen, specHash: String(second["spec_hash"]) });
    const slot: unknown = await (await first).json();
    assert.ok(isRecord(slot) && slot["spec_hash"] !== second["spec_hash"], "each hears of what it has written");
  });

  it("is stored, with an error that says so, where no operator acts on it", async () => {
    await using gateway = await startGateway();
    const [status, code, details] = await refused(
      send(gateway, "POST", "/api/slots", { name: "new", model: { default: "m" } }),
    );
    assert.deepEqual([status, code], [503, "slot.not_ready"]);
    assert.deepEqual(details, { slot: "new", state: "offline", reason: "OperatorLost" });
    assert.deepEqual(await readdir(join(gateway.stateDir, "config/slots")), ["new.toml"]);
  });

  it("is refused with the field that is wrong", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 1 } } });
    for (const [body, path] of [
      [{ name: "a", modle: {} }, ["modle"]],
      [{ name: "a", model: { default: "m", parallel: "2" } }, ["model", "parallel"]],
      [{ name: "a" }, ["model", "default"]],
      [{ name: "a", model: { default: "m" }, labels: { a: 1 } }, ["labels"]],
      [{ name: 5, model: { default: "m" } }, ["name"]],
      [{ kind: "Model", metadata: { name: "a" }, spec: { model: { default: "m" } } }, ["kind"]],
      [{ apiVersion: "v2", metadata: { name: "a" }, spec: { model: { default: "m" } } }, ["apiVersion"]],
      [
        { kind: "Slot", metadata: { name: "a" }, spec: { idleSeconds: -1, model: { default: "m" } } },
        ["spec", "idleSeconds"],
      ],
      [{ kind: "Slot", metadata: { name: "a" }, spec: { model: { default: "m" } }, more: 1 }, ["more"]],
      [
        { kind: "Slot", metadata: { name: "a", annotations: {} }, spec: { model: { default: "m" } } },
        ["metadata", "annotations"],
      ],
      [{ kind: "Slot", metadata: [], spec: { model: { default: "m" } } }, ["metadata"]],
      [{ kind: "Slot", metadata: { name: "a" }, spec: 5 }, ["spec"]],
    ] as const) {
      const [status, code, details] = await refused(send(gateway, "POST", "/api/slots", body));
      assert.deepEqual([status, code, details?.["path"]], [422, "config.invalid", path], JSON.stringify(body));
    }
    const put = (body: Json): Promise<[number, string, Json | undefined]> =>
      refused(send(gateway, "PUT", "/api/slots/primary", body));
    assert.deepEqual((await put({ name: "other", model: { default: "m" } }))[2]?.["path"], ["name"]);
    assert.deepEqual((await put({ metadata: { name: "other" }, spec: { model: { default: "m" } } }))[2]?.["path"], [
      "metadata",
      "name",
    ]);
    const nameless = await refused(send(gateway, "POST", "/api/slots", { model: { default: "m" } }));
    assert.deepEqual(nameless, [400, "dispatch.invalid_request", { path: ["name"], message: "is required" }]);
    for (const name of ["UP", "a/b", "..", "-a", "x".repeat(33), "__proto__"]) {
      const [status, code, details] = await refused(
        send(gateway, "POST", "/api/slots", { name, model: { default: "m" } }),
      );
      assert.deepEqual([status, code, details?.["path"]], [400, "dispatch.invalid_request", ["name"]], name);
    }
    const [status, code] = await refused(send(gateway, "PUT", "/api/slots/..%2f..%2fetc", { model: { default: "m" } }));
    assert.deepEqual([status, code], [400, "dispatch.invalid_request"]);
  });

  it("names file, line and column where the fault is in the file", async () => {
    await using gateway = await startGateway({ slots: { coder: { port: 1 } } });
    await declare(gateway, "slots/coder.toml", 'load = "always"\n[model\n');
    const [status, code, details] = await refused(
      send(gateway, "PUT", "/api/slots/coder", { model: { default: "m" } }),
    );
    assert.deepEqual([status, code], [422, "config.invalid"]);
    assert.deepEqual(
      [details?.["file"], details?.["line"], typeof details?.["column"]],
      ["slots/coder.toml", 2, "number"],
    );
  });

  it("cannot be created twice, and a built-in slot's cannot be deleted", async () => {
    await using gateway = await startGateway({ slots: { coder: { port: 1 }, primary: { port: 2 } } });
    await declare(gateway, "slots/coder.toml", "enabled = false\n");
    const again = await refused(send(gateway, "POST", "/api/slots", { name: "coder", model: { default: "m" } }));
    assert.deepEqual(again.slice(0, 2), [409, "slot.already_exists"]);
    await declare(gateway, "slots/primary.toml", "enabled = false\n");
    assert.deepEqual((await refused(send(gateway, "DELETE", "/api/slots/primary"))).slice(0, 2), [409, "slot.builtin"]);
    assert.deepEqual((await refused(send(gateway, "DELETE", "/api/slots/nobody"))).slice(0, 2), [
      404,
      "slot.not_found",
    ]);
    assert.equal(await written(gateway, "slots/primary.toml"), "enabled = false\n");
  });

  it("is not written where the configuration is read-only", async () => {
    await using gateway = await startGateway({ slots: { coder: { port: 1 } }, env: { SVC_READ_ONLY: "1" } });
    await declare(gateway, "slots/coder.toml", "enabled = false\n");
    for (const [method, path, body] of [
      ["POST", "/api/slots", { name: "new", model: { default: "m" } }],
      ["PUT", "/api/slots/coder", { model: { default: "m" } }],
      ["DELETE", "/api/slots/coder", undefined],
      ["POST", "/api/slots/coder/swap", { model: "test-model", write: true }],
      ["PUT", "/api/upstreams/acme", { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] }],
      ["DELETE", "/api/upstreams/acme", undefined],
    ] as const) {
      const [status, code] = await refused(send(gateway, method, path, body));
      assert.deepEqual([status, code], [409, "config.read_only"], `${method} ${path}`);
    }
    assert.deepEqual(await readdir(join(gateway.stateDir, "config/slots")), ["coder.toml"]);
  });

  it("accepts no field over the API that runs code, unless a setting allows it", async () => {
    const sketch: SlotSketch = { port: 1, spec: { engine: "custom", command: ["run"] } };
    const env = { NODE_OPTIONS: "--import=x" };
    const fields: readonly Json[] = [
      { command: ["run", "more"] },
      { args: ["--x"] },
      { image: "x" },
      { mounts: [{ source: "/", target: "/host" }] },
      { devices: ["/dev/kfd"] },
      { podTemplate: { spec: {} } },
      { workingDir: "/tmp" },
      { env: { KEY: { valueFrom: { file: "/etc/shadow" } } } },
      { env },
    ];
    const manifest = 'engine = "custom"\nruntime = "docker"\ncommand = ["run"]\n\n[model]\ndefault = "m"\n';
    const same = { engine: "custom", runtime: "docker", command: ["run"], model: { default: "m" } };
    {
      await using gateway = await startGateway({ slots: { coder: sketch } });
      await declare(gateway, "slots/coder.toml", manifest);
      for (const field of fields) {
        const [status, code, details] = await refused(send(gateway, "PUT", "/api/slots/coder", { ...same, ...field }));
        const path = "env" in field ? ["env", Object.keys(field["env"] ?? {})[0]] : Object.keys(field);
        assert.deepEqual([status, code, details], [403, "auth.forbidden", { path, file: "slots/coder.toml" }]);
        const created = await refused(
          send(gateway, "POST", "/api/slots", { name: "new", model: { default: "m" }, ...field }),
        );
        assert.deepEqual(created, [403, "auth.forbidden", { path, file: "slots/new.toml" }]);
      }
      const away = await refused(send(gateway, "PUT", "/api/slots/coder", { model: { default: "m" } }));
      assert.deepEqual(away[2]?.["path"], ["command"]);
      const onHost = await refused(send(gateway, "PUT", "/api/slots/coder", { ...same, runtime: "process" }));
      assert.deepEqual(onHost, [403, "auth.forbidden", { path: ["runtime"], file: "slots/coder.toml" }]);
      assert.equal((await send(gateway, "PUT", "/api/slots/coder", { ...same, args: [] })).status, 202);
      // The operator still publishes it.
      assert.equal((await send(gateway, "DELETE", "/api/slots/coder")).status, 202);
      const again = await refused(send(gateway, "PUT", "/api/slots/coder", same));
      assert.deepEqual(again, [403, "auth.forbidden", { path: ["command"], file: "slots/coder.toml" }]);
    }
    {
      await using gateway = await startGateway({ slots: { coder: sketch } });
      const own = { program: "embedded", args: ["--x"], model: { default: "m" } };
      await declare(gateway, "slots/coder.toml", 'program = "embedded"\nargs = ["--x"]\n[model]\ndefault = "m"\n');
      assert.equal((await send(gateway, "PUT", "/api/slots/coder", { ...own, idleSeconds: 5 })).status, 202);
      const inDocker = await refused(send(gateway, "PUT", "/api/slots/coder", { args: ["--x"], model: own.model }));
      assert.deepEqual(inDocker[2]?.["path"], ["runtime"]);
    }
    await using gateway = await startGateway({ slots: { coder: sketch }, env: { SVC_API_EXEC: "1" } });
    for (const field of fields) {
      const { status } = await send(gateway, "PUT", "/api/slots/coder", { ...same, ...field });
      assert.ok(status === 201 || status === 202, JSON.stringify(field));
    }
  });
});
