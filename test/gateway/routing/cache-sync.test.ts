import assert from "node:assert/strict";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { upstreamSpecSchema } from "../../../src/api/upstream.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { modelRecord, startGateway } from "../../support/gateway.ts";
import { helloChunks, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { restOf, withoutComments } from "../../support/held-stream.ts";
import { later } from "../../support/later.ts";

const messages = [{ role: "user", content: "hi" }];
const ask = (model: string): object => ({ model, messages });
const quick = { gateway: { holdTimes: { firstCommentMs: 50, everyMs: 50 } } };

/** What operators say of themselves while nobody can know yet which slots there are. */
const early = [
  ["there is no operator", "none"],
  ["the operator has not looked at everything yet", { isSettled: false }],
  ["only a dead operator has published", { heartbeat: new Date(0).toISOString() }],
  ["only an operator of another boot has published", { bootId: "another", heartbeat: new Date().toISOString() }],
] as const;

describe("a request that arrives before the operator has published all slots", () => {
  for (const [what, operator] of early) {
    it(`is held for a built-in slot while ${what}, and is answered once it is published`, async () => {
      await using engine = await scriptedEngine();
      await using gateway = await startGateway({ operator });
      const answered = gateway.post("/v1/chat/completions", ask("primary"));
      const unknown = gateway.post("/v1/chat/completions", ask("coder"));
      const nonsense = gateway.post("/v1/chat/completions", ask("nonsense"));
      await gateway.publishOperator({ isSettled: false });
      await gateway.publish("primary", { port: engine.port });
      assert.equal((await answered).status, 200);
      assert.match(engine.seen[0]?.body ?? "", /"engine-model"/, "the engine's own name is known by then");
      await gateway.publish("coder", { port: engine.port, status: { model: { ref: "c", origin: "spec" } } });
      assert.equal((await unknown).status, 200);
      await gateway.publishOperator();
      assert.equal((await envelopeOf(await nonsense)).error.code, "model.not_found");
    });
  }

  it("gets the error for a disabled slot only when the operator has published that", async () => {
    await using gateway = await startGateway({ operator: "none" });
    const answered = gateway.post("/v1/chat/completions", ask("primary"));
    await gateway.publish("primary", { spec: { enabled: false } });
    assert.equal((await envelopeOf(await answered)).error.code, "slot.disabled");
  });

  for (const [path, body] of [
    ["/v1/chat/completions", ask("primary")],
    ["/v1/chat/completions", ask("gpt-4o")],
    ["/v1/embeddings", { model: "primary:test-model", input: "x" }],
    ["/v1/images/generations", { model: "sdxl", prompt: "x" }],
  ] as const) {
    it(`is refused when its time is over: ${path} ${JSON.stringify(body)}`, async () => {
      await using gateway = await startGateway({ operator: "none", env: { SVC_HOLD_SECONDS: "1" } });
      const response = await gateway.post(path, body);
      assert.equal(response.status, 503);
      assert.equal(response.headers.get("retry-after"), "2");
      assert.equal(response.headers.get("x-should-retry"), null);
      const { error } = await envelopeOf(response);
      assert.deepEqual([error.code, error.details?.["reason"]], ["slot.not_ready", "NotPublished"]);
    });
  }

  it("is refused at once with SVC_HOLD_SECONDS=0", async () => {
    await using gateway = await startGateway({ operator: "none", env: { SVC_HOLD_SECONDS: "0" } });
    const response = await gateway.post("/v1/chat/completions", ask("primary"));
    assert.equal((await envelopeOf(response)).error.code, "slot.not_ready");
  });

  it("waits for the registry and the upstreams too", async () => {
    await using gateway = await startGateway({ operator: { isSettled: false } });
    const answered = gateway.post("/v1/chat/completions", ask("qwen3:4b"));
    await gateway.publishRegistry({ models: [modelRecord("qwen3:4b")] });
    await gateway.publishOperator();
    assert.equal((await envelopeOf(await answered)).error.code, "model.not_loaded");
  });

  it("continues once a provider has listed its model, also without an operator", async () => {
    const listed = Promise.withResolvers<void>();
    await using provider = await scriptedEngine(async (response, { method }) => {
      if (method === "GET") await listed.promise;
      const answer = method === "GET" ? { data: [{ id: "gpt-double" }] } : { model: "gpt-double", choices: [] };
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
    const spec = upstreamSpecSchema.parse({ baseUrl: `http://127.0.0.1:${provider.port}/v1`, discover: {} });
    const registry = { upstreams: [{ name: "acme", spec }] };
    await using gateway = await startGateway({ operator: "none", registry });
    const answered = gateway.post("/v1/chat/completions", ask("gpt-double"), { signal: AbortSignal.timeout(180_000) });
    await until("it waits", async () => (await gateway.metric('berth_requests_held{slot="none"}')) === 1);
    listed.resolve();
    assert.equal((await answered).status, 200);
  });

  it("waits while the file of a published slot is missing, under any name that could be the slot's", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { coder: { port: engine.port } }, operator: { slotCount: 1 } });
    assert.equal((await gateway.post("/v1/chat/completions", ask("coder"))).status, 200);
    assert.equal((await gateway.post("/v1/chat/completions", ask("nonsense"))).status, 404);
    await rm(join(gateway.stateDir, "slots", "coder.json"));
    await until(
      "the slot is gone",
      async () => (await fetch(new URL("/api/slots/coder", gateway.running.url))).status === 503,
    );
    const answered = gateway.post("/v1/chat/completions", ask("coder"));
    const nonsense = gateway.post("/v1/chat/completions", ask("nonsense"));
    await until("both wait", async () => (await gateway.metric('berth_requests_held{slot="none"}')) === 2);
    await gateway.publish("coder", { port: engine.port });
    assert.deepEqual([(await answered).status, (await nonsense).status], [200, 404]);
  });

  it("gets comments on the wait in its stream, and then on the slot's", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ operator: "none", ...quick });
    const response = await gateway.post("/v1/chat/completions", { ...ask("primary"), stream: true });
    assert.equal(response.status, 200);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader?.read();
    assert.match(String(first?.value), /^: waiting slot=unknown state=offline waited=\d+s\n\n/);
    await gateway.publish("primary", { state: "starting" });
    let text = "";
    await until("it hears of the slot", async () => {
      text += (await reader?.read())?.value ?? "";
      return text.includes("state=starting");
    });
    await gateway.publish("primary", { port: engine.port });
    text += await restOf(reader);
    assert.equal(withoutComments(text), helloChunks.join("").replaceAll("engine-model", "primary"));
  });

  it("gives up its place and its memory when its client leaves", async () => {
    await using gateway = await startGateway({ operator: "none" });
    const leaving = new AbortController();
    const answered = gateway.post("/v1/chat/completions", ask("primary"), { signal: leaving.signal });
    const left = later(assert.rejects(answered));
    await until("it waits", async () => (await gateway.metric('berth_requests_held{slot="none"}')) === 1);
    leaving.abort();
    await left;
    await until("it is counted", async () => {
      const line = 'berth_requests_total{route="/v1/chat/completions",slot="none",code="499"}';
      return (await gateway.metric(line)) === 1;
    });
    assert.equal(await gateway.metric('berth_requests_held{slot="none"}'), 0);
  });

  it("is refused when the gateway stops", async () => {
    await using gateway = await startGateway({ operator: "none" });
    const answered = gateway.post("/v1/chat/completions", ask("primary"));
    const other = gateway.post("/v1/chat/completions", { ...ask("other"), stream: true });
    await until("both wait", async () => (await gateway.metric('berth_requests_held{slot="none"}')) === 2);
    const closed = gateway.running.close({ drainSeconds: 60 });
    for (const each of [answered, other]) {
      assert.equal((await envelopeOf(await each)).error.code, "system.overloaded");
    }
    await closed;
  });
});
