import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { envelopeIn, envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { withoutComments } from "../support/held-stream.ts";
import { helloChunks, json, scriptedEngine, type Script } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const stream = { ...chat, stream: true };

/** Two words of a stream, or nothing where no stream was asked for; neither ends. */
const never: Script = (response, { body }) => {
  if (!body.includes('"stream":true')) return;
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(helloChunks[0]);
  response.write(helloChunks[1]);
};

/** A stream of which the rest comes once it is told to end. */
function untilTurn(): { script: Script; end: () => void } {
  const turn = Promise.withResolvers<void>();
  const script: Script = async (response, seen) => {
    await never(response, seen);
    await turn.promise;
    response.end(helloChunks.slice(2).join(""));
  };
  return { script, end: turn.resolve };
}

async function assertTold(response: Response): Promise<void> {
  assert.equal(response.status, 503);
  assert.equal(response.headers.get("retry-after"), "2");
  const { error } = await envelopeOf(response);
  assert.equal(error.code, "system.overloaded");
  assert.match(error.message, /the gateway is stopping; send the request again/);
}

async function waiting(gateway: TestGateway, kind: "held" | "queued", slot: string, count: number): Promise<void> {
  const line = `berth_requests_${kind}{slot="${slot}"}`;
  await until(`${count} are ${kind}`, async () => (await gateway.metric(line)) === count);
}

describe("a stop", () => {
  it("refuses new requests, lets a stream end, answers readyz with 503, and tells in its metrics how long it has", async () => {
    const script = untilTurn();
    await using engine = await scriptedEngine(script.script);
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.equal(await gateway.metric("berth_gateway_drain_left_seconds"), undefined);
    const closed = gateway.running.close({ drainSeconds: 600 });
    const left = (await gateway.metric("berth_gateway_drain_left_seconds")) ?? 0;
    assert.ok(left > 300 && left <= 600, String(left));
    await assertTold(await gateway.post("/v1/chat/completions", chat));
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
    script.end();
    assert.match(await response.text(), /\[DONE\]/);
    await closed;
    await assert.rejects(fetch(`${gateway.url}/livez`));
  });

  it("lets a slow reader have the whole of its answer, and a client complete its upload", async () => {
    // More than the sockets on the way hold.
    const answer = { model: "primary", words: "x".repeat(7_000_000) };
    await using engine = await scriptedEngine((response) => json(response, answer));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const body = JSON.stringify(chat);
    const open = (...more: readonly string[]): Socket => {
      const type = ["content-type: application/json", `content-length: ${body.length}`];
      const client = connect(gateway.running.port, "127.0.0.1");
      client.write(["POST /v1/chat/completions HTTP/1.1", "host: x", ...type, ...more, "", ""].join("\r\n"));
      return client;
    };
    const reader = open();
    reader.write(body);
    await once(reader, "readable");
    const sender = open("expect: 100-continue");
    const [first] = await once(sender, "data");
    assert.match(String(first), /^HTTP\/1\.1 100 /);
    const closed = gateway.running.close({ drainSeconds: 30 });
    sender.write(body);
    for (const answered of await Promise.all([textOf(reader), textOf(sender)])) {
      assert.match(answered, /^HTTP\/1\.1 200 OK\r\n/);
      assert.ok(answered.endsWith('xxx"}'), `only ${answered.length} bytes came`);
    }
    await closed;
  });
});

describe("a stop whose time is over", () => {
  it("refuses held requests with 503, and ends streams, held or not, with one last error event in the form of their protocol", async () => {
    await using engine = await scriptedEngine(never);
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" }, warm: { port: engine.port } },
      gateway: { commentTimes: { firstMs: 1, everyMs: 10_000 } },
    });
    const asked = gateway.post("/v1/chat/completions", chat);
    const begun = [await gateway.post("/v1/chat/completions", stream)];
    await waiting(gateway, "held", "primary", 2);
    const warm = { ...stream, model: "warm" };
    begun.push(await gateway.post("/v1/chat/completions", warm));
    const message = await gateway.post("/v1/messages", { ...warm, max_tokens: 9 });
    await until("both stream", () => engine.seen.length === 2);
    await gateway.running.close({ drainSeconds: 0 });
    await assertTold(await asked);
    for (const each of begun) {
      const event =
        withoutComments(await each.text())
          .trimEnd()
          .split("\n\n")
          .at(-1) ?? "";
      assert.equal(envelopeIn(event.replace("data: ", "")).error.code, "system.overloaded");
    }
    const last = (await message.text()).trimEnd().split("\n\n").at(-1) ?? "";
    assert.match(last, /^event: error\ndata: \{"type":"error","error":\{.*"type":"overloaded_error"/);
  });

  it("or is cut short, ends requests at the engine and in the queue, and sends the engine no more", async () => {
    await using engine = await scriptedEngine(never);
    const spec = { concurrency: { max: 1, queue: 4 } };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec } } });
    const first = gateway.post("/v1/chat/completions", chat);
    await until("the engine has it", () => engine.seen.length === 1);
    const others = [
      gateway.post("/v1/chat/completions", chat),
      gateway.post("/v1/embeddings", { model: "primary", input: "x" }),
    ];
    await waiting(gateway, "queued", "primary", 2);
    const endNow = new AbortController();
    const closed = gateway.running.close({ drainSeconds: 600, endNow: endNow.signal });
    endNow.abort();
    await closed;
    for (const response of [first, ...others]) await assertTold(await response);
    await until("the engine is told", () => engine.seen[0]?.isAborted === true);
    assert.equal(engine.seen.length, 1);
    assert.match(gateway.log(), /3 requests did not end within the time to stop/);
  });

  it("refuses and records requests whose body has not come", async () => {
    await using engine = await scriptedEngine(never);
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const clients = ["chat/completions", "audio/transcriptions"].map((path) => {
      const client = connect(gateway.running.port, "127.0.0.1");
      const type = path.startsWith("audio") ? "multipart/form-data; boundary=x" : "application/json";
      const head = [`POST /v1/${path} HTTP/1.1`, "host: x", `content-type: ${type}`, "content-length: 1000"];
      client.write([...head, "expect: 100-continue", "", "--x\r\n"].join("\r\n"));
      return client;
    });
    // The gateway answers 100 in the moment in which it begins to read the body.
    await Promise.all(clients.map((client) => once(client, "readable")));
    await gateway.running.close({ drainSeconds: 0 });
    for (const answered of await Promise.all(clients.map((client) => textOf(client))))
      assert.match(answered, /^HTTP\/1\.1 503 /m);
    for (const path of ["/v1/chat/completions", "/v1/audio/transcriptions"])
      assert.ok(gateway.log().includes(`${path} none 503 system.overloaded`), gateway.log());
  });
});

it("a request to the management API that waits at the end of a stop is answered with the state that was reached, and event streams end whole", async () => {
  await using gateway = await startGateway({ slots: { primary: { state: "starting" } } });
  const load = gateway.post("/api/slots/primary/load?wait=ready", {});
  const events = await fetch(`${gateway.url}/api/events`);
  const logs = await fetch(`${gateway.url}/api/slots/primary/logs?follow=1`);
  await until("the load is asked for", () => existsSync(join(gateway.stateDir, "requests/primary.load.json")));
  await gateway.running.close({ drainSeconds: 0 });
  const answer = await load;
  assert.equal(answer.status, 202);
  assert.match(await answer.text(), /"state":"starting"/);
  assert.match(await events.text(), /^id: /);
  await logs.text();
});

it("a gateway that has closed its port completes its requests, while another gateway takes new ones", async () => {
  const script = untilTurn();
  await using engine = await scriptedEngine(script.script);
  const slots = { primary: { port: engine.port } };
  await using gateway = await startGateway({ slots });
  const open = await gateway.post("/v1/chat/completions", stream);
  await gateway.running.release();
  const closed = gateway.running.close({ drainSeconds: 30 });
  await using next = await startGateway({ slots, env: { SVC_PORT: String(gateway.running.port) } });
  assert.equal(next.url, gateway.url);
  assert.equal((await fetch(`${next.url}/readyz`, { headers: { connection: "close" } })).status, 200);
  script.end();
  assert.match(await open.text(), /\[DONE\]/);
  await closed;
  assert.equal((await fetch(`${next.url}/readyz`)).status, 200);
});
