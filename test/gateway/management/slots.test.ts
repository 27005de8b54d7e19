import assert from "node:assert/strict";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { openPublisher } from "../../../src/store/state/publisher.ts";
import { modelRecord, publishedSlot } from "../../support/gateway.ts";
import { later } from "../../support/later.ts";
import { until } from "../../support/until.ts";
import { answerTasks, refusalOf, site, type Site } from "./fixture.ts";

const model = { default: "m" };

describe("/api/slots", () => {
  let at: Site;
  before(async () => {
    const exec = { port: 1, spec: { engine: "custom" as const, command: ["run"] } };
    const ready = Object.fromEntries(
      ["primary", "restarted", "own", "swapped", "gone", "coder", "waited"].map((name) => [name, { port: 1 }]),
    );
    at = await site({
      slots: {
        ...ready,
        exec,
        llama: { port: 1, spec: { engine: "llama" } },
        disabled: { spec: { enabled: false } },
        starting: { state: "starting" },
      },
      registry: { models: [modelRecord("other")] },
    });
  });
  after(() => at[Symbol.asyncDispose]());

  it("stores requests for the operator and answers with the slot", async () => {
    for (const verb of ["load", "unload", "restart"]) {
      const answer = await at.send("POST", `/api/slots/primary/${verb}`);
      assert.equal(answer.status, 202);
      assert.partialDeepStrictEqual(await answer.json(), { name: "primary" });
      const request = (await at.requests("primary")).find(({ kind }) => kind === verb);
      assert.equal(request?.specHash, "test");
    }
    const swap = async (path: string, body: object): Promise<unknown[]> => {
      assert.equal((await at.send("POST", path, body)).status, 202);
      const request = (await at.requests("primary")).find(({ kind }) => kind === "swap-model");
      return [request?.model, request?.specModel];
    };
    assert.deepEqual(await swap("/api/slots/primary/swap", { model: "other" }), ["other", "test-model"]);
    assert.equal((await swap("/api/slots/primary/swap", { reset: true }))[0], undefined);
    assert.equal((await swap("/api/models/other/assign", { slot: "primary" }))[0], "other");
  });

  it("waits until the operator has taken a request up and the slot has settled, also for a request that another replaced", async () => {
    let isAnswered = false;
    const ask = (): Promise<Response> =>
      later(at.send("POST", "/api/slots/restarted/restart?wait=ready&timeout=600").finally(() => (isAnswered = true)));
    const tokenOf = async (): Promise<string | undefined> => (await at.requests("restarted"))[0]?.token;
    const first = ask();
    const overtaken = await until("the request is written", tokenOf);
    const second = ask();
    const token = await until("the other is written", async () => {
      const found = await tokenOf();
      return found === overtaken ? undefined : found;
    });
    const handledRequests = { restart: token };
    await at.publish("restarted", { state: "starting", status: { handledRequests } });
    assert.equal(isAnswered, false);
    await at.publish("restarted", { port: 1, status: { handledRequests } });
    for (const answer of [await first, await second]) {
      assert.equal(answer.status, 202);
      assert.partialDeepStrictEqual(await answer.json(), { state: "ready" });
    }
  });

  it("answers with the slot's present state at the time limit of a wait", async () => {
    const answer = await at.send("POST", "/api/slots/starting/load?wait=ready&timeout=1");
    assert.equal(answer.status, 202);
    assert.partialDeepStrictEqual(await answer.json(), { state: "starting" });
  });

  it("refuses requests that make no sense", async () => {
    const message = "/c/slots/broken.yaml:2:1: Tabs are not allowed as indentation";
    const times = { observedGeneration: 1, lastTransitionTime: new Date().toISOString() };
    const claim = { reason: "InvalidSpec", message, ...times };
    const conditions = [
      { type: "Ready", status: "False", ...claim },
      { type: "Stalled", status: "True", ...claim },
    ] as const;
    await at.publish("broken", { state: "error", spec: { enabled: false }, status: { conditions: [...conditions] } });
    const choose = { path: ["model"], message: "name a model, or reset: true" };
    const disabled = { slot: "disabled", state: "offline", reason: "Disabled" };
    const invalid = { path: [], message };
    for (const [path, body, is, details] of [
      ["slots/disabled/load", undefined, "409 slot.disabled", disabled],
      ["slots/disabled/unload", undefined, "409 slot.disabled", disabled],
      ["slots/disabled/restart", undefined, "409 slot.disabled", disabled],
      ["slots/nobody/load", undefined, "404 slot.not_found", { suggestions: [] }],
      ["slots/disable/unload", undefined, "404 slot.not_found", { suggestions: ["disabled"] }],
      ["slots/stt/load", undefined, "409 slot.disabled", { slot: "stt", state: "offline", reason: "NotConfigured" }],
      ["slots/llama/swap", {}, "400 dispatch.invalid_request", choose],
      ["slots/llama/swap", { model: "m", reset: true }, "400 dispatch.invalid_request", choose],
      ["slots/llama/swap", { model: "nope" }, "404 model.not_found", undefined],
      ["models/test-model/assign", { slot: "nobody" }, "404 slot.not_found", { suggestions: [] }],
      ["models/%20/assign", { slot: "own" }, "404 model.not_found", undefined],
      // The manifest was never valid.
      ["slots/broken/load", undefined, "422 config.invalid", invalid],
      ["slots/broken/restart", undefined, "422 config.invalid", invalid],
      ["slots/broken/swap", { model: "other", write: true }, "422 config.invalid", invalid],
    ] as const) {
      const refused = await at.refused("POST", `/api/${path}`, body);
      assert.deepEqual([refused.is, refused.details], [is, details], path);
      if (is === "404 model.not_found") assert.match(refused.message, /; known are other$/);
      if (path === "slots/stt/load") assert.match(refused.message, /no manifest configures it$/);
    }
    for (const slot of ["llama", "own", "disabled", "broken"]) assert.deepEqual(await at.requests(slot), []);
  });

  it("changes one line of the manifest where a swap is to be written", async () => {
    const manifest = '# ours\nengine = "custom"\ncommand = ["run"]\n\n[model]\ndefault = "test-model" # small\n';
    await at.declare("slots/swapped.toml", manifest);
    // An earlier swap must not win over what is written down for good.
    await at.send("POST", "/api/slots/swapped/swap", { model: "test-model" });
    assert.equal((await at.requests("swapped")).length, 1);
    assert.equal((await at.send("POST", "/api/slots/swapped/swap", { model: "other", write: true })).status, 202);
    assert.equal(await at.written("slots/swapped.toml"), manifest.replace("test-model", "other"));
    assert.deepEqual(await at.requests("swapped"), []);
    const { is } = await at.refused("POST", "/api/slots/swapped/swap", { reset: true, write: true });
    assert.equal(is, "400 dispatch.invalid_request");
  });

  it("refuses requests to a slot that is deleted, unless it has been declared again meanwhile", async () => {
    const leaving = publishedSlot("leaving", { state: "unloading", port: 1 }, 1);
    const plan = { reason: "Deleted", message: "its manifest is gone", steps: [] };
    await (await openPublisher(at.stateDir)).writeSlot({ ...leaving, plan });
    await until("the gateway knows it", () => at.running.seenRevision("leaving") === 1);
    for (const [method, verb, body] of [
      ["POST", "/load", undefined],
      ["POST", "/unload", undefined],
      ["POST", "/restart", undefined],
      ["POST", "/swap", { reset: true }],
      ["DELETE", "", undefined],
    ] as const) {
      const { is, details } = await at.refused(method, `/api/slots/leaving${verb}`, body);
      assert.equal(is, "409 slot.illegal_transition", verb);
      assert.deepEqual(details, { slot: "leaving", state: "unloading", reason: "Deleted" });
    }
    const created = await at.refused("POST", "/api/slots", { name: "leaving", model });
    assert.equal(created.is, "409 slot.illegal_transition");
    assert.equal((await at.send("PUT", "/api/slots/leaving", { model })).status, 201);
    assert.equal((await at.send("POST", "/api/slots/leaving/load")).status, 202);
  });

  it("waits no longer for a slot that is gone", { timeout: 180_000 }, async () => {
    const waiting = later(at.refused("POST", "/api/slots/gone/restart?wait=ready&timeout=600"));
    await until("it is asked", async () => (await at.requests("gone")).length === 1);
    await (await openPublisher(at.stateDir)).deleteSlot("gone");
    assert.equal((await waiting).is, "404 slot.not_found");
  });

  it("creates, replaces and removes a manifest", async () => {
    const spec = { load: "onDemand", model };
    const created = await at.send("POST", "/api/slots", { name: "coder", ...spec, labels: { team: "x" } });
    assert.equal(created.status, 201);
    const text = 'load = "onDemand"\n\n[model]\ndefault = "m"\n\n[labels]\nteam = "x"\n';
    assert.equal(await at.written("slots/coder.toml"), text);
    const manifest = { kind: "Slot", metadata: { name: "coder" }, spec: { ...spec, pinned: false } };
    for (let count = 0; count < 2; count += 1)
      assert.equal((await at.send("PUT", "/api/slots/coder", manifest)).status, 202);
    assert.match(await at.written("slots/coder.toml"), /^load = "onDemand"\npinned = false\n/);
    assert.equal((await at.send("DELETE", "/api/slots/coder")).status, 202);
    await assert.rejects(at.written("slots/coder.toml"), { code: "ENOENT" });
    // No operator has seen that yet.
    const again = await at.refused("DELETE", "/api/slots/coder");
    assert.deepEqual([again.is, again.details?.["reason"]], ["409 slot.illegal_transition", "Deleted"]);
    assert.equal((await at.send("PUT", "/api/slots/coder", spec)).status, 201);
    assert.equal((await at.send("DELETE", "/api/slots/coder")).status, 202);
  });

  it("does not wait for a manifest after another has replaced it", { timeout: 180_000 }, async () => {
    const put = (query: string, idleSeconds: number) =>
      at.got(`/api/slots/waited${query}`, "PUT", { load: "onDemand", idleSeconds, model });
    const first = later(put("?wait=ready&timeout=600", 5));
    await until("it is written", async () => (await at.written("slots/waited.toml")).includes("idle_seconds = 5"));
    const { spec_hash: specHash } = await put("", 6);
    const seen = publishedSlot("waited", { port: 1 }, 2);
    await (await openPublisher(at.stateDir)).writeSlot({ ...seen, specHash: String(specHash) });
    assert.notEqual((await first)["spec_hash"], specHash, "each hears of what it has written");
  });

  it("answers a creation with the state under the new manifest, also of a built-in slot", async () => {
    const { spec_hash: specHash } = await at.got("/api/slots/embed", "PUT", { model });
    await rm(join(at.stateDir, "config/slots/embed.toml"));
    const answer = later(at.got("/api/slots", "POST", { name: "embed", model }));
    await until("it is written", async () => (await readdir(join(at.stateDir, "config/slots"))).includes("embed.toml"));
    const seen = publishedSlot("embed", { state: "error" }, 2);
    await (await openPublisher(at.stateDir)).writeSlot({ ...seen, specHash: String(specHash) });
    assert.equal((await answer)["state"], "error");
  });

  it("stores a manifest that no operator acts on, with an error that says so", async () => {
    const { is, details } = await at.refused("POST", "/api/slots", { name: "new", model });
    assert.deepEqual([is, details], ["503 slot.not_ready", { slot: "new", state: "offline", reason: "OperatorLost" }]);
    assert.equal(await at.written("slots/new.toml"), '[model]\ndefault = "m"\n');
  });

  it("refuses a manifest with its place in the file, and where it would replace another", async () => {
    await at.declare("slots/faulty.toml", 'load = "always"\n[model\n');
    await at.declare("slots/known.toml", "enabled = false\n");
    await at.declare("slots/primary.toml", "enabled = false\n");
    for (const [method, path, body, is, details] of [
      ["PUT", "/api/slots/faulty", { model }, "422 config.invalid", { file: "slots/faulty.toml", line: 2 }],
      ["POST", "/api/slots", { name: "known", model }, "409 slot.already_exists", {}],
      ["DELETE", "/api/slots/primary", undefined, "409 slot.builtin", {}],
      ["DELETE", "/api/slots/nobody", undefined, "404 slot.not_found", {}],
    ] as const) {
      const refused = await at.refused(method, path, body);
      assert.equal(refused.is, is, `${method} ${path}`);
      assert.partialDeepStrictEqual(refused.details ?? {}, details, `${method} ${path}`);
    }
    assert.equal(await at.written("slots/primary.toml"), "enabled = false\n");
  });

  it("accepts no field over the API that runs code", async () => {
    const same = { engine: "custom", command: ["run"], model };
    await at.declare("slots/exec.toml", 'engine = "custom"\ncommand = ["run"]\n\n[model]\ndefault = "m"\n');
    const forbidden = async (method: string, path: string, body: object): Promise<unknown> => {
      const { is, details } = await at.refused(method, `/api/slots${path}`, body);
      return [is, details];
    };
    const told = (path: string, name: string) => ["403 auth.forbidden", { path: [path], file: `slots/${name}.toml` }];
    assert.deepEqual(await forbidden("PUT", "/exec", { ...same, args: ["--x"] }), told("args", "exec"));
    assert.deepEqual(await forbidden("POST", "", { name: "other", model, args: ["--x"] }), told("args", "other"));
    assert.deepEqual(await forbidden("PUT", "/exec", { model }), told("command", "exec"));
    await at.declare("slots/own.toml", 'program = "embedded"\nargs = ["--x"]\n[model]\ndefault = "m"\n');
    assert.deepEqual(await forbidden("PUT", "/own", { args: ["--x"], model }), told("runtime", "own"));
    assert.equal((await at.send("PUT", "/api/slots/exec", { ...same, args: [] })).status, 202);
    // The operator still publishes it.
    assert.equal((await at.send("DELETE", "/api/slots/exec")).status, 202);
    assert.deepEqual(await forbidden("PUT", "/exec", same), told("command", "exec"));
  });
});

for (const [when, operator, words] of [
  ["before an operator has published anything", "none", "no operator has published its slots yet"],
  ["while the operator reads the manifests", { isSettled: false }, "the operator has not published every slot yet"],
] as const)
  it(`requests get a retry time ${when}`, async () => {
    await using at = await site({ slots: {}, operator });
    for (const [method, path] of [
      ["POST", "/api/slots/coder/load"],
      ["GET", "/api/slots/coder"],
    ] as const) {
      const response = await at.send(method, path);
      assert.equal(response.headers.get("retry-after"), "2");
      const { is, message, details } = await refusalOf(response);
      assert.deepEqual(
        [is, message, details],
        ["503 slot.not_ready", words, { slot: "coder", state: "offline", reason: "NotPublished" }],
      );
    }
    assert.equal((await at.refused("GET", "/api/slots/Not%20A%20Name")).is, "404 slot.not_found");
    await at.publishOperator();
    await until("it has looked", async () => (await at.send("GET", "/api/slots/coder")).status === 404);
  });

it("a read-only configuration is not written", async () => {
  await using at = await site({ slots: { coder: { port: 1 } }, env: { SVC_READ_ONLY: "1" } });
  await at.declare("slots/coder.toml", "enabled = false\n");
  for (const [method, path, body] of [
    ["POST", "/api/slots", { name: "new", model }],
    ["PUT", "/api/slots/coder", { model }],
    ["DELETE", "/api/slots/coder", undefined],
    ["POST", "/api/slots/coder/swap", { model: "test-model", write: true }],
    ["PUT", "/api/upstreams/acme", { baseUrl: "https://x.example/v1", models: [{ ref: "a" }] }],
    ["DELETE", "/api/upstreams/acme", undefined],
    ["POST", "/api/models/scan", { write: true }],
  ] as const)
    assert.equal((await at.refused(method, path, body)).is, "409 config.read_only", `${method} ${path}`);
  assert.deepEqual(await readdir(join(at.stateDir, "config/slots")), ["coder.toml"]);
});

it("the setting SVC_API_EXEC allows over the API what runs code or reaches this machine", async () => {
  await using at = await site({ slots: { coder: { port: 1 } }, env: { SVC_API_EXEC: "1" } });
  await using operator = await answerTasks(at.stateDir, () => ({ models: [] }));
  const code = { engine: "custom", command: ["run"], env: { NODE_OPTIONS: "--import=x" }, model };
  assert.equal((await at.send("PUT", "/api/slots/coder", code)).status, 201);
  const spec = { baseUrl: "http://127.0.0.1:11434/v1", models: [{ ref: "a" }] };
  assert.equal((await at.send("PUT", "/api/upstreams/acme", spec)).status, 201);
  await at.got("/api/models/scan", "POST", { directories: ["/srv/models"] });
  assert.partialDeepStrictEqual(operator.seen, [{ kind: "scan", directories: ["/srv/models"] }]);
});
