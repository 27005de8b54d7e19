import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FailedRef } from "../../src/api/on-request.ts";
import { envelopeOf } from "../support/envelope.ts";
import { modelRecord, startGateway, type SlotSketch } from "../support/gateway.ts";
import { json, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = (model: string, stream = false): object => ({
  model,
  stream,
  messages: [{ role: "user", content: "hi" }],
});
const refs = ["small", "large"];

/** A slot whose model requests choose, as its operator publishes it. */
function choosing(ref: string, chosen: string, sketch: SlotSketch = {}, failed: FailedRef[] = []): SlotSketch {
  const onRequest = { usual: "small", refs, chosen, since: new Date().toISOString(), failed };
  return {
    ...sketch,
    spec: { model: { default: "small", onRequest: ["large"] }, ...sketch.spec },
    status: { model: { ref, origin: "spec", served: `engine-${ref}` }, onRequest, ...sketch.status },
  };
}

const registry = { models: refs.map((ref) => modelRecord(ref)) };
const completion = (name: string) => scriptedEngine((response) => json(response, { model: name, choices: [] }));

describe("a request to a slot whose model requests choose", () => {
  it("is answered at once by the loaded model, under its ref, the slot's name and both", async () => {
    await using engine = await completion("engine-small");
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: engine.port }) },
      registry,
    });
    for (const name of ["small", "coder", "coder:small"]) {
      const response = await gateway.post("/v1/chat/completions", chat(name));
      assert.deepEqual(await response.json(), { model: name, choices: [] });
    }
    assert.equal(engine.seen.length, 3);
  });

  it("waits in its model's own queue while another model is loaded, and counts as demand for its model", async () => {
    await using small = await completion("engine-small");
    await using large = await completion("engine-large");
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: small.port }) },
      registry,
    });
    const asked = performance.now();
    const answers = ["large", "coder:large"].map((name) => gateway.post("/v1/chat/completions", chat(name)));
    const line = (ref: string) => gateway.demand("coder")?.refs?.find((each) => each.ref === ref);
    await until("both wait", () => gateway.demand("coder")?.held === 2 && line("large")?.held === 2);
    assert.equal(await gateway.metric('berth_requests_held{slot="coder"}'), 2);
    const waitedMs = Date.now() - Date.parse(line("large")?.waitingSince ?? "");
    assert.ok(waitedMs >= 0 && waitedMs <= performance.now() - asked + 50, `${waitedMs} ms`);
    // Requests for the loaded model overtake it.
    assert.equal((await gateway.post("/v1/chat/completions", chat("small"))).status, 200);
    await gateway.publish("coder", choosing("small", "large", { state: "unloading" }));
    await gateway.publish("coder", choosing("large", "large", { port: large.port }));
    for (const answered of answers) assert.equal((await answered).status, 200);
    assert.equal(small.seen.length, 1);
    assert.deepEqual(
      large.seen.map(({ body }) => /"model":"([^"]*)"/.exec(body)?.[1]),
      ["engine-large", "engine-large"],
    );
    await until("nobody waits", () => line("large")?.held === 0 && line("large")?.waitingSince === undefined);
  });

  it("is never answered by another model, whatever the slot holds meanwhile", async () => {
    await using small = await completion("engine-small");
    await using gateway = await startGateway({
      slots: { coder: choosing("large", "large", { state: "starting" }) },
      registry,
      env: { SVC_HOLD_SECONDS: "3" },
    });
    const answered = gateway.post("/v1/chat/completions", chat("large"));
    await until("it waits", () => gateway.demand("coder")?.held === 1);
    await gateway.publish("coder", choosing("small", "small", { port: small.port }));
    const response = await answered;
    assert.equal(response.status, 503);
    const { error } = await envelopeOf(response);
    assert.deepEqual([error.code, error.details?.["reason"]], ["slot.not_ready", "Swapping"]);
    assert.equal(small.seen.length, 0);
  });

  it("is to be sent again where the list does not name its model any more", async () => {
    await using small = await completion("engine-small");
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: small.port }) },
      registry,
    });
    const answered = gateway.post("/v1/chat/completions", chat("large"));
    await until("it waits", () => gateway.demand("coder")?.held === 1);
    await gateway.publish("coder", {
      port: small.port,
      spec: { model: { default: "small" } },
      status: { model: { ref: "small", origin: "spec", served: "engine-small" } },
    });
    const { error } = await envelopeOf(await answered);
    assert.deepEqual([error.code, error.details?.["reason"]], ["slot.not_ready", "Changed"]);
    assert.equal((await gateway.post("/v1/chat/completions", chat("large"))).status, 404);
    assert.equal(small.seen.length, 0);
  });

  it("fails at once for a model that could not be loaded, until its next attempt is due", async () => {
    await using small = await completion("engine-small");
    const failure = (retryInMs: number): FailedRef => ({
      ref: "large",
      reason: "Exited",
      message: "/secret/path: no",
      failures: 3,
      at: new Date().toISOString(),
      retryAt: new Date(Date.now() + retryInMs).toISOString(),
      isStalled: false,
    });
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: small.port }, [failure(60_000)]) },
      registry,
    });
    const response = await gateway.post("/v1/chat/completions", chat("large"));
    const { error } = await envelopeOf(response);
    assert.deepEqual([response.status, error.code, error.details?.["ref"]], [503, "slot.failed", "large"]);
    assert.ok(Number(response.headers.get("retry-after")) > 50);
    assert.doesNotMatch(JSON.stringify(error), /secret/);
    assert.equal((await gateway.post("/v1/chat/completions", chat("small"))).status, 200);
    await gateway.publish("coder", choosing("small", "small", { port: small.port }, [failure(-1)]));
    void gateway.post("/v1/chat/completions", chat("large")).catch(() => undefined);
    await until("the next one waits", () => gateway.demand("coder")?.refs?.some(({ held }) => held === 1) === true);
  });

  it("is 404 where its model is unknown, and the message names the list that has the model", async () => {
    await using gateway = await startGateway({
      slots: {
        coder: choosing("small", "small", {
          spec: { engine: "llama", model: { default: "small", onRequest: ["large"] } },
        }),
      },
      registry: { models: [modelRecord("small")] },
    });
    const response = await gateway.post("/v1/chat/completions", chat("large"));
    const { error } = await envelopeOf(response);
    assert.deepEqual([response.status, error.code], [404, "model.not_found"]);
    assert.match(error.message, /slot coder lists large in model.onRequest/);
  });

  it("gets comments that describe the wait, with its position", async () => {
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "large", { state: "unloading" }) },
      registry,
      gateway: { holdTimes: { firstCommentMs: 10, everyMs: 20 } },
    });
    const response = await gateway.post("/v1/chat/completions", chat("large", true));
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    assert.ok(reader !== undefined);
    let text = "";
    const says = async (words: string): Promise<void> => {
      while (!text.includes(words)) text += (await reader.read()).value ?? assert.fail(`the stream ended: ${text}`);
    };
    await says('position=1 doing="draining small for large"');
    await gateway.publish("coder", choosing("large", "large", { state: "pulling" }));
    await says('doing="fetching large"');
    await gateway.publish("coder", choosing("large", "large", { state: "warming" }));
    await says('doing="loading large"');
    await gateway.publish("coder", choosing("small", "small", { state: "starting" }));
    await says('doing="small comes first, then large is loaded"');
    await reader.cancel();
  });

  it("is removed when its client gives up", async () => {
    await using gateway = await startGateway({ slots: { coder: choosing("small", "small", { port: 9 }) }, registry });
    const leaving = new AbortController();
    const answered = gateway.post("/v1/chat/completions", chat("large"), { signal: leaving.signal });
    const line = () => gateway.demand("coder")?.refs?.find(({ ref }) => ref === "large");
    await until("it waits", () => line()?.held === 1);
    leaving.abort();
    await assert.rejects(answered);
    await until("nobody waits", () => line()?.held === 0);
  });

  it("is reported in the slot's record: the chosen model, and models that could not be loaded", async () => {
    const at = new Date().toISOString();
    const failed = {
      ref: "large",
      reason: "Exited",
      message: "it exited",
      failures: 2,
      at,
      retryAt: at,
      isStalled: false,
    };
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: 9 }, [failed]) },
      registry,
    });
    const slot: unknown = await (await fetch(`${gateway.url}/api/slots/coder`)).json();
    assert.ok(typeof slot === "object" && slot !== null && "on_request" in slot);
    assert.deepEqual(slot.on_request, {
      usual: "small",
      refs,
      chosen: "small",
      failed: [{ ref: "large", reason: "Exited", message: "it exited", failures: 2, retry_at: at }],
    });
  });

  it("may name any model of the slot's list, as /v1/models shows", async () => {
    await using gateway = await startGateway({
      slots: { coder: choosing("small", "small", { port: 9 }) },
      registry: { models: [] },
    });
    const list: unknown = await (await fetch(`${gateway.url}/v1/models?available=1`)).json();
    const ids = JSON.stringify(list).match(/"id":"[^"]*"/g);
    assert.deepEqual(ids, ['"id":"coder"', '"id":"small"', '"id":"large"']);
  });
});
