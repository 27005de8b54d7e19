import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { describe, it } from "node:test";
import { envelopeIn, envelopeOf } from "../support/envelope.ts";
import { startGateway } from "../support/gateway.ts";
import { chunk, helloChunks, json, sayHello, scriptedEngine, type Script } from "../support/scripted-engine.ts";
import { restOf, withoutComments } from "../support/held-stream.ts";
import { until } from "../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const stream = { ...chat, stream: true };

const begin: Script = (response) => {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(helloChunks[0]);
  response.write(helloChunks[1]);
};

describe("an engine that fails within its stream", () => {
  const ways: readonly (readonly [what: string, script: Script, code: string, message: RegExp])[] = [
    [
      "dies",
      async (response, seen) => {
        await begin(response, seen);
        response.write(helloChunks[2], () => response.destroy());
      },
      "dispatch.upstream_failed",
      /connection closed/,
    ],
    [
      "ends it cleanly, but too early",
      async (response, seen) => {
        await begin(response, seen);
        response.end();
      },
      "dispatch.upstream_failed",
      /ended the stream early/,
    ],
    [
      "says so itself",
      async (response, seen) => {
        await begin(response, seen);
        response.end('data: {"error":{"code":500,"message":"/root/secret.gguf exploded","type":"server_error"}}\n\n');
      },
      "dispatch.upstream_failed",
      /failed within its answer/,
    ],
    [
      "sends bytes that are no stream",
      (response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.end("<html>\n\n");
      },
      "dispatch.upstream_failed",
      /no event stream/,
    ],
  ];
  for (const [what, script, code, message] of ways) {
    it(`${what}: the client reads one last event with the error, and no [DONE]`, async () => {
      await using engine = await scriptedEngine(script);
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
      const response = await gateway.post("/v1/chat/completions", stream);
      assert.equal(response.status, 200);
      const text = await response.text();
      const events = text.split("\n\n").filter((event) => event !== "");
      const last = envelopeIn((events.at(-1) ?? "").replace(/^data: /, ""));
      assert.equal(last.error.code, code);
      assert.match(last.error.message, message);
      assert.doesNotMatch(text, /\[DONE\]|secret/);
      assert.equal(text.match(/"error"/g)?.length, 1);
    });
  }

  it("reports to Messages and Responses clients in their own form", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write('event: first\ndata: {"type":"first"}\n\n', () => response.destroy());
    });
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, status: { protocols: ["messages", "responses"] } } },
    });
    const messages = await (await gateway.post("/v1/messages", { ...stream, max_tokens: 1 })).text();
    assert.match(messages, /event: error\ndata: \{"type":"error","error":\{[^\n]*"type":"api_error"/);
    const responses = await (
      await gateway.post("/v1/responses", { model: "primary", input: "x", stream: true })
    ).text();
    assert.match(responses, /event: error\ndata: \{"type":"error","code":"dispatch\.upstream_failed"/);
  });
});

describe("an engine that fails before its answer", () => {
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
    [
      "answers 500",
      (response) => json(response, { error: { message: "/root/x broke" } }, 500),
      502,
      "dispatch.upstream_failed",
    ],
    ["answers 302", (response) => json(response, {}, 302), 502, "dispatch.upstream_failed"],
    [
      "answers bytes that are no HTTP",
      (response) => {
        response.socket?.end("garbage\r\n\r\n");
      },
      502,
      "dispatch.upstream_failed",
    ],
    [
      "refuses the request",
      (response) => json(response, { error: { message: "context is too long" } }, 400),
      400,
      "dispatch.rejected",
    ],
  ];
  for (const [what, script, status, code] of ways) {
    it(`${what}: ${status} ${code}`, async () => {
      await using engine = await scriptedEngine(script);
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
      for (const body of [chat, stream]) {
        const response = await gateway.post("/v1/chat/completions", body);
        assert.equal(response.status, status);
        const { error } = await envelopeOf(response);
        assert.equal(error.code, code);
        assert.doesNotMatch(JSON.stringify(error), /root/);
        if (code !== "dispatch.rejected") continue;
        assert.equal(error.message, "context is too long");
        assert.deepEqual(error.details, { upstream: { error: { message: "context is too long" } } });
      }
    });
  }

  it("is too slow: 504", async () => {
    await using engine = await scriptedEngine(() => undefined);
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, spec: { timeoutSeconds: { firstByte: 1 } } } },
    });
    const response = await gateway.post("/v1/chat/completions", chat);
    assert.equal(response.status, 504);
    assert.equal((await envelopeOf(response)).error.code, "dispatch.upstream_timeout");
    await until("the engine is told", () => engine.seen[0]?.isAborted === true);
  });

  it("stops sending within its stream: the last event has the error", async () => {
    await using engine = await scriptedEngine(begin);
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, spec: { timeoutSeconds: { idle: 1 } } } },
    });
    const text = await (await gateway.post("/v1/chat/completions", stream)).text();
    assert.match(text, /data: \{"error":\{"code":"dispatch\.upstream_timeout"[^\n]*\n\n$/);
  });
});

describe("an engine that restarts", () => {
  /** The request is tried again until the test has seen it wait. */
  const patient = { gateway: { againAfterMs: Array.from({ length: 600 }, () => 100) } };

  it("costs no request: dead connections are replaced, refused ones tried again", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } }, ...patient });
    await Promise.all(
      Array.from({ length: 8 }, async () => await (await gateway.post("/v1/chat/completions", chat)).text()),
    );
    await engine.stop();
    const answered = gateway.post("/v1/chat/completions", chat);
    await until("it waits", () => gateway.demand("primary")?.held === 1);
    await engine.restart();
    assert.equal((await answered).status, 200);
  });

  it("holds a request until it is ready again where it was found dead meanwhile", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } }, ...patient });
    await engine.stop();
    const answered = gateway.post("/v1/chat/completions", chat);
    await gateway.publish("primary", { state: "starting" });
    await until("it is held", async () => (await gateway.metric('berth_requests_held{slot="primary"}')) === 1);
    await engine.restart();
    await gateway.publish("primary", { port: engine.port });
    assert.equal((await answered).status, 200);
  });

  it("sends comments to the client of a waiting stream, also where the stream was admitted at once", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      gateway: { ...patient.gateway, holdTimes: { firstCommentMs: 50, everyMs: 50 } },
    });
    await engine.stop();
    const response = await gateway.post("/v1/chat/completions", stream);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    assert.match(String((await reader?.read())?.value), /^: waiting slot=primary /);
    assert.match(String((await reader?.read())?.value), /^: waiting slot=primary /);
    await engine.restart();
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

  for (const [who, operator] of [
    ["an operator that has settled", {}],
    ["none any more", { isSettled: false, heartbeat: new Date(Date.now() - 60_000).toISOString() }],
  ] as const)
    it(`costs a request 502 where it does not return in time: there is ${who}`, async () => {
      await using engine = await scriptedEngine();
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } }, operator });
      await engine.stop();
      const response = await gateway.post("/v1/chat/completions", chat);
      assert.equal(response.status, 502);
      assert.equal((await envelopeOf(response)).error.code, "dispatch.upstream_unavailable");
    });
});

describe("a client that leaves", () => {
  for (const [what, body] of [
    ["a stream", stream],
    ["a whole answer", chat],
  ] as const) {
    it(`ends the engine's work on ${what}`, async () => {
      await using engine = await scriptedEngine(async (response, seen) => {
        if (body === stream) await begin(response, seen);
      });
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
      const leaving = new AbortController();
      const answered = gateway.post("/v1/chat/completions", body, { signal: leaving.signal });
      await until("the engine works", () => engine.seen.length === 1);
      if (body === stream) await (await answered).body?.getReader().read();
      const left = body === chat ? assert.rejects(answered) : undefined;
      const at = performance.now();
      leaving.abort();
      await left;
      await until("the engine is told", () => engine.seen[0]?.isAborted === true);
      assert.ok(performance.now() - at < 10_000, "at once, not at some time-out");
      await until(
        "nothing is in flight",
        async () => (await gateway.metric('berth_requests_in_flight{slot="primary"}')) === 0,
      );
    });
  }

  it("that reads slowly slows the engine down, and the gateway's memory does not grow", async () => {
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
  });
});

describe("a stop", () => {
  it("refuses new requests, lets a stream end, and answers readyz with 503", async () => {
    let finish = (): void => undefined;
    await using engine = await scriptedEngine(async (response, seen) => {
      await begin(response, seen);
      await new Promise<void>((resolve) => (finish = resolve));
      response.end(helloChunks.slice(2).join(""));
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const response = await gateway.post("/v1/chat/completions", stream);
    const closed = gateway.running.close({ drainSeconds: 60 });
    const refused = await gateway.post("/v1/chat/completions", chat);
    assert.equal(refused.status, 503);
    assert.equal((await envelopeOf(refused)).error.code, "system.overloaded");
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
    finish();
    assert.match(await response.text(), /\[DONE\]/);
    await closed;
    await assert.rejects(fetch(`${gateway.url}/livez`));
  });

  it("lets a slow reader have the whole of its answer", async () => {
    const words = "x".repeat(7_000_000);
    await using engine = await scriptedEngine((response) => json(response, { model: "primary", words }));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const client = connect(gateway.running.port, "127.0.0.1");
    const body = JSON.stringify(chat);
    client.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await once(client, "readable");
    const closed = gateway.running.close({ drainSeconds: 30 });
    const answer = await textOf(client);
    assert.ok(answer.endsWith('xxx"}'), `only ${answer.length} bytes came`);
    await closed;
  });

  it("lets a client complete its upload", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const body = JSON.stringify(chat);
    const client = connect(gateway.running.port, "127.0.0.1");
    client.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`,
    );
    const [first] = await once(client, "data");
    assert.match(String(first), /^HTTP\/1\.1 100 /);
    const closed = gateway.running.close({ drainSeconds: 30 });
    client.write(body);
    assert.match(await textOf(client), /^HTTP\/1\.1 200 OK\r\n[^]*hello/);
    await closed;
  });
});

describe("a warm slot", () => {
  it("answers again and again over kept connections", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    for (let count = 0; count < 20; count += 1) await (await gateway.post("/v1/chat/completions", chat)).text();
    assert.equal(engine.connections(), 1);
  });
});
