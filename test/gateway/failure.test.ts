import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { envelopeIn, envelopeOf } from "../support/envelope.ts";
import { startGateway } from "../support/gateway.ts";
import { chunk, helloChunks, json, scriptedEngine, type Script } from "../support/scripted-engine.ts";
import { restOf, withoutComments } from "../support/held-stream.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const stream = { ...chat, stream: true };

const begin: Script = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(helloChunks[0]);
  response.write(helloChunks[1]);
};

describe("an engine that fails", () => {
  it("within its stream: the client reads one last event with the error, and no [DONE]", async () => {
    await using engine = await scriptedEngine(async (response, seen) => {
      await begin(response, seen);
      response.write(helloChunks[2], () => response.destroy());
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.equal(response.status, 200);
    const text = await response.text();
    const last = envelopeIn(
      text
        .trimEnd()
        .split("\n\n")
        .at(-1)
        ?.replace(/^data: /, "") ?? "",
    );
    assert.equal(last.error.code, "dispatch.upstream_failed");
    assert.match(last.error.message, /connection closed/);
    assert.doesNotMatch(text, /\[DONE\]/);
    assert.equal(text.match(/"error"/g)?.length, 1);
  });

  it("before its answer: the client gets a status, and nothing of the engine's own words but a refusal", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const refusal = { error: { message: "context is too long" } };
    const ways: readonly (readonly [what: string, script: Script, status: number, code: string])[] = [
      ["closes the connection", (response) => response.destroy(), 502, "dispatch.upstream_failed"],
      [
        "sends half a JSON answer",
        (response) => {
          response.writeHead(200, { "content-type": "application/json", "content-length": 100 });
          response.write("{");
          setImmediate(() => response.destroy());
        },
        502,
        "dispatch.upstream_failed",
      ],
      ["answers 500", (response) => json(response, { error: "/root/x broke" }, 500), 502, "dispatch.upstream_failed"],
      ["answers 302", (response) => json(response, {}, 302), 502, "dispatch.upstream_failed"],
      ["speaks no HTTP", (response) => void response.socket?.end("x\r\n\r\n"), 502, "dispatch.upstream_failed"],
      ["refuses the request", (response) => json(response, refusal, 400), 400, "dispatch.rejected"],
    ];
    for (const [what, script, status, code] of ways) {
      engine.answer(script);
      for (const body of [chat, stream]) {
        const response = await gateway.post("/v1/chat/completions", body);
        const { error } = await envelopeOf(response);
        assert.deepEqual([response.status, error.code], [status, code], what);
        assert.doesNotMatch(JSON.stringify(error), /root/);
        if (code !== "dispatch.rejected") continue;
        assert.deepEqual([error.message, error.details], [refusal.error.message, { upstream: refusal }]);
      }
    }
    engine.answer((response) => {
      response.writeHead(413, { "content-length": 100 });
      response.write("too", () => response.destroy());
    });
    const cut = await gateway.post("/v1/chat/completions", chat);
    const { error: refused } = await envelopeOf(cut);
    assert.deepEqual([cut.status, refused.code], [413, "dispatch.rejected"], "its refusal breaks off");
    assert.deepEqual(refused.details, { upstream: "too" });
    await engine.stop();
    const { error } = await envelopeOf(await gateway.post("/v1/chat/completions", chat));
    assert.equal(error.code, "dispatch.upstream_unavailable", "it does not return in time");
  });

  it("by its silence: 504 before its answer, an event with the error within its stream", async () => {
    await using engine = await scriptedEngine((response, seen) => {
      if (seen.body.includes('"stream":true')) return begin(response, seen);
    });
    const { port } = engine;
    await using gateway = await startGateway({
      slots: {
        primary: { port, spec: { timeoutSeconds: { firstByte: 60, idle: 1 } } },
        late: { port, spec: { timeoutSeconds: { firstByte: 1, idle: 60 } } },
      },
    });
    const cut = gateway.post("/v1/chat/completions", stream);
    const late = gateway.post("/v1/chat/completions", { ...chat, model: "late" });
    assert.match(await (await cut).text(), /data: \{"error":\{"code":"dispatch\.upstream_timeout"[^\n]*\n\n$/);
    assert.equal((await late).status, 504);
    assert.equal((await envelopeOf(await late)).error.code, "dispatch.upstream_timeout");
    await until("the engine is told", () => engine.seen.every(({ isAborted }) => isAborted));
  });
});

describe("an engine that restarts", () => {
  /** The request is tried again until the test has seen it wait. */
  const patient = { againAfterMs: Array.from({ length: 600 }, () => 100) };

  it("costs no request: kept connections are replaced, refused ones tried again, and a stream gets comments", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      gateway: { ...patient, commentTimes: { firstMs: 50, everyMs: 50 } },
    });
    for (let count = 0; count < 5; count += 1) await (await gateway.post("/v1/chat/completions", chat)).text();
    assert.equal(engine.connections(), 1, "a warm slot keeps its connection");
    await engine.stop();
    const answered = gateway.post("/v1/chat/completions", chat);
    await until("it waits", () => gateway.demand("primary")?.held === 1);
    const response = await gateway.post("/v1/chat/completions", stream);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    for (let count = 0; count < 2; count += 1)
      assert.match(String((await reader?.read())?.value), /^: waiting slot=primary /);
    await engine.restart();
    assert.equal((await answered).status, 200);
    assert.match(withoutComments(await restOf(reader)), /\[DONE\]/);
  });

  it("holds a request at a lost address until an operator that has just come has published another one", async () => {
    await using engine = await scriptedEngine();
    await using moved = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      operator: { isSettled: false },
      gateway: { againAfterMs: [1] },
    });
    await engine.stop();
    const answered = gateway.post("/v1/chat/completions", chat);
    await until("it is held", async () => (await gateway.metric('berth_requests_held{slot="primary"}')) === 1);
    const later = gateway.post("/v1/chat/completions", chat);
    await until("so is the next one", async () => (await gateway.metric('berth_requests_held{slot="primary"}')) === 2);
    await gateway.publish("primary", { port: moved.port });
    assert.deepEqual([(await answered).status, (await later).status], [200, 200]);
  });
});

it("a client that reads slowly slows the engine down, and its leave ends the engine's work", async () => {
  let written = 0;
  const event = chunk({ content: "x".repeat(16_000) });
  function* events(): Generator<string> {
    for (let count = 0; count < 4000; count += 1) {
      written += event.length;
      yield event;
    }
  }
  await using engine = await scriptedEngine(async (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    await pipeline(Readable.from(events()), response).catch(() => undefined);
  });
  await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
  const leaving = new AbortController();
  const response = await gateway.post("/v1/chat/completions", stream, { signal: leaving.signal });
  await response.body?.getReader().read();
  let last = -1;
  let still = 0;
  await until("the engine waits", () => {
    still = written === last ? still + 1 : 0;
    last = written;
    return still === 20;
  });
  // Socket buffers on both sides hold some; 64 MB would be all.
  assert.ok(written < 24_000_000, `${written} bytes were taken from the engine`);
  leaving.abort();
  await until("the engine is told", () => engine.seen[0]?.isAborted === true);
  const inFlight = 'berth_requests_in_flight{slot="primary"}';
  await until("nothing is in flight", async () => (await gateway.metric(inFlight)) === 0);
});
