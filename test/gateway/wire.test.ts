import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { passiveType } from "../../src/gateway/proxy/relay.ts";
import { envelopeIn, envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawExchange } from "../support/raw-http.ts";
import { type ScriptedEngine, scriptedEngine } from "../support/scripted-engine.ts";
import { specOf } from "./providers/fixture.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const text = JSON.stringify(chat);
const relayed = text.replace("primary", "engine-model");

describe("requests of real clients", () => {
  let engine: ScriptedEngine;
  let gateway: TestGateway;
  before(async () => {
    engine = await scriptedEngine();
    gateway = await startGateway({ slots: { primary: { port: engine.port } }, env: { SVC_BODY_LIMIT: "1Mi" } });
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  it("accept a body packed with gzip, deflate, br or zstd", async () => {
    for (const [encoding, body] of [
      ["gzip", gzipSync(text)],
      ["deflate", deflateSync(text)],
      ["br", brotliCompressSync(text)],
      ["zstd", zstdCompressSync(text)],
    ] as const) {
      const headers = { "content-type": "application/json", "content-encoding": encoding };
      const response = await gateway.post("/v1/chat/completions", "", { body: new Uint8Array(body), headers });
      assert.equal(response.status, 200, encoding);
      const seen = engine.seen.at(-1);
      assert.deepEqual([seen?.body, seen?.headers["content-encoding"]], [relayed, undefined], encoding);
    }
  });

  it("accept chunks, a query, a trailing slash, another spelling of a content type, and an absolute request line", async () => {
    const length = `content-length: ${text.length}`;
    for (const [head, body] of [
      [
        ["POST /v1/chat/completions/?api-version=1", "transfer-encoding: chunked"],
        `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
      ],
      [["POST http://berth.local/v1/chat/completions", length], text],
      [["GET http://berth.local/v1/models"], ""],
      [["GET http://berth.local/livez"], ""],
    ] as const) {
      const [line, ...headers] = head;
      const type = "content-type: application/json; charset=utf-8";
      const lines = [`${line} HTTP/1.1`, "host: berth.local", "connection: close", type, ...headers, "", ""];
      assert.equal((await rawExchange(gateway.url, lines.join("\r\n") + body)).status, 200, line);
    }
  });

  it("get a stream over HTTP/1.0 without chunks, ended by closing the connection", async () => {
    const body = JSON.stringify({ ...chat, stream: true });
    const answer = await rawExchange(
      gateway.url,
      `POST /v1/chat/completions HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      { isEnough: () => false },
    );
    assert.equal(answer.status, 200);
    assert.doesNotMatch(answer.head, /transfer-encoding/i);
    assert.match(answer.body, /^data: [^]*data: \[DONE\]\n\n$/);
  });

  it("with Expect: 100-continue are asked for the body, or refused by its length before it is sent", async () => {
    const head = (length: number): string =>
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
    const asked = await rawExchange(gateway.url, head(text.length), { isEnough: (seen) => seen.includes("\r\n\r\n") });
    assert.equal(asked.status, 100);
    const refused = await rawExchange(gateway.url, head(1024 * 1024 + 1));
    assert.equal(refused.status, 413);
    assert.equal(envelopeIn(refused.body).error.code, "dispatch.payload_too_large");
  });

  it("may be HEAD wherever a GET is possible", async () => {
    const response = await fetch(`${gateway.url}/v1/models`, { method: "HEAD" });
    assert.deepEqual([response.status, await response.text()], [200, ""]);
    // These may be without an end.
    for (const path of ["/api/events", "/models/sse", "/api/slots/primary/logs?follow=1"])
      assert.equal((await fetch(`${gateway.url}${path}`, { method: "HEAD" })).status, 405, path);
  });

  it("with too much or too little of /v1 get an error that suggests the right URL", async () => {
    const mistakes = [
      ["POST", "/v1/v1/chat/completions", "/v1/chat/completions"],
      ["POST", "/chat/completions", "/v1/chat/completions"],
      ["POST", "/v1//embeddings", "/v1/embeddings"],
      ["POST", "/embeddings", "/v1/embeddings"],
      ["GET", "/v1/v1/models/vendor/model:free", "/v1/models/vendor/model:free"],
      ["GET", "/v1/api/slots", "/api/slots"],
      ["POST", "/v1/nothing", undefined],
      ["GET", "/v1", undefined],
    ] as const;
    for (const [method, path, meant] of mistakes) {
      const response = await fetch(`${gateway.url}${path}`, { method, ...(method === "POST" && { body: text }) });
      assert.equal(response.status, 404, path);
      const { error } = await envelopeOf(response);
      assert.equal(error.code, "system.not_found");
      assert.equal(/; did you mean (.*)\?$/.exec(error.message)?.[1], meant, error.message);
    }
  });

  it("relay every other field to the engine, byte for byte apart from the model, up to the limit of a body", async () => {
    const head = `{ "tools":[{"type":"function","function":{"name":"f","parameters":{"model":"x"}}}],"parallel_tool_calls" : false,\n"stream_options":{"include_usage":true},"seed":18446744073709551615, "model" : "primary" ,"x":"\\u00e9`;
    const body = `${head}${"A".repeat(1024 * 1024 - head.length - 2)}"}`;
    assert.equal((await gateway.post("/v1/chat/completions", body)).status, 200);
    assert.ok(engine.seen.at(-1)?.body === body.replace('"primary"', '"engine-model"'));
    assert.equal((await gateway.post("/v1/chat/completions", `${body} `)).status, 413);
  });

  it("keep credentials, cookies and forwarding headers from the engine", async () => {
    await gateway.post("/v1/chat/completions", chat, {
      headers: {
        "content-type": "application/json",
        authorization: "Bearer sk-secret",
        cookie: "a=b",
        "x-forwarded-for": "10.0.0.1",
        "x-request-id": "mine-1",
      },
    });
    const { headers = {} } = engine.seen.at(-1) ?? {};
    const names = Object.keys(headers).toSorted();
    assert.deepEqual(names, ["accept", "content-length", "content-type", "host", "x-request-id"]);
    assert.equal(headers["x-request-id"], "mine-1");
    const odd = { "content-type": "application/json", "x-request-id": "id\tcanary", "x-canary": "canary" };
    const answer = await gateway.post("/v1/chat/completions", chat, { headers: odd });
    assert.doesNotMatch(JSON.stringify([engine.seen.at(-1)?.headers, ...answer.headers]), /canary/);
  });
});

it("pages of other origins may call /v1 where SVC_CORS_ORIGINS names them, never /api, and nothing by default", async () => {
  const origin = "https://chat.example.com";
  const allowed = async (url: string, init: RequestInit, name = "origin"): Promise<string | null> =>
    (await fetch(url, init)).headers.get(`access-control-allow-${name}`);
  const preflight = (names: string): RequestInit => ({
    method: "OPTIONS",
    headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": names },
  });
  await using closed = await startGateway();
  const refused = await fetch(`${closed.url}/v1/chat/completions`, preflight("authorization"));
  assert.deepEqual([refused.headers.get("access-control-allow-origin"), refused.ok], [null, false]);
  await using engine = await scriptedEngine();
  const slots = { primary: { port: engine.port } };
  await using gateway = await startGateway({ slots, env: { SVC_CORS_ORIGINS: origin } });
  const url = `${gateway.url}/v1/chat/completions`;
  const asked = preflight("authorization,x-stainless-os");
  assert.equal((await fetch(url, asked)).status, 204);
  assert.equal(await allowed(url, asked), origin);
  assert.equal(await allowed(url, asked, "headers"), "authorization,x-stainless-os");
  const posing = preflight("content-type,x-forwarded-email,X-Forwarded-For");
  assert.doesNotMatch((await allowed(url, posing, "headers")) ?? "", /forwarded/i, "the proxy alone names a user");
  const headers = { "content-type": "application/json", origin };
  assert.equal(await allowed(url, { method: "POST", body: text, headers }), origin);
  assert.equal(await allowed(`${gateway.url}/v1/models`, { headers: { origin } }), origin);
  const other = { headers: { origin: "https://evil.example.com" } };
  assert.equal(await allowed(`${gateway.url}/v1/models`, other), null);
  assert.equal(await allowed(`${gateway.url}/api/slots`, { headers: { origin } }), null);
});

it("a slot's request rules remove fields, set missing fields, and force fields, in whatever letters a client writes them", async () => {
  await using engine = await scriptedEngine();
  const set = { temperature: 0.5, "top_p!": 0.9, seed: 1, "max_tokens!": 10 };
  const request = { set, strip: ["logit_bias"] };
  await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: { request } } } });
  const sent = { ...chat, temperature: 1, top_p: 1, logit_bias: {}, Max_Tokens: 1e6, LOGIT_BIAS: {} };
  await gateway.post("/v1/chat/completions", sent);
  const forced = { top_p: 0.9, seed: 1, max_tokens: 10 };
  const expected = { ...chat, model: "engine-model", temperature: 1, ...forced };
  assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), expected);
});

describe("no answer below /v1 is shown as a page", () => {
  let engine: ScriptedEngine;
  let gateway: TestGateway;
  before(async () => {
    engine = await scriptedEngine();
    const baseUrl = `http://127.0.0.1:${engine.port}/v1`;
    const spec = specOf({ baseUrl, capabilities: ["speech"], models: [{ ref: "far" }] });
    gateway = await startGateway({
      slots: { speaker: { port: engine.port, status: { capabilities: ["speech", "chat"] } } },
      registry: { upstreams: [{ name: "acme", spec }] },
      env: { SVC_CORS_ORIGINS: "https://page.example" },
    });
  });
  after(async () => {
    await gateway[Symbol.asyncDispose]();
    await engine[Symbol.asyncDispose]();
  });

  it("an engine's or a provider's page is text, and what may run in a page is bytes", async () => {
    engine.answer((response) => void response.writeHead(200, { "content-type": "text/html" }).end("<script>"));
    const speech = { input: "x", voice: "y" };
    for (const response of [
      await fetch(`${gateway.url}/v1/audio/voices?model=far`),
      await fetch(`${gateway.url}/v1/audio/voices?model=speaker`),
      await gateway.post("/v1/audio/speech", { model: "speaker", ...speech }),
      await gateway.post("/v1/audio/speech", { model: "far", ...speech }),
    ]) {
      assert.deepEqual([response.status, response.headers.get("content-type")], [200, "text/plain; charset=utf-8"]);
      assert.equal(await response.text(), "<script>");
    }
    for (const [type, seen] of [
      ["TEXT/HTML; charset=utf-16", "text/plain; charset=utf-8"],
      ["audio/mpeg, text/html", "application/octet-stream"],
      ["application/xhtml+xml", "application/octet-stream"],
      ["image/svg+xml", "application/octet-stream"],
      ["multipart/x-mixed-replace; boundary=b", "application/octet-stream"],
    ] as const)
      assert.equal(passiveType(type), seen);
    for (const type of [
      "application/json",
      "application/json; charset=utf-8",
      "text/event-stream;charset=UTF-8",
      "text/plain",
      "text/vtt; charset=utf-8",
      "audio/mpeg",
      "audio/L16;rate=24000;channels=1",
      "image/png",
      "application/octet-stream",
    ])
      assert.equal(passiveType(type), type);
  });

  it("every answer forbids sniffing and rendering, refusals too", async () => {
    engine.answer((response) => void response.writeHead(200, { "content-type": "application/json" }).end("{}"));
    const preflight = { origin: "https://page.example", "access-control-request-method": "POST" };
    const json = (body: string): RequestInit => ({ body, headers: { "content-type": "application/json" } });
    const asks: readonly (readonly [number, string, string, RequestInit?])[] = [
      [200, "POST", "/v1/chat/completions", json('{"model":"speaker"}')],
      [404, "POST", "/v1/chat/completions", json('{"model":"nobody"}')],
      [400, "POST", "/v1/chat/completions", json("{")],
      [405, "GET", "/v1/chat/completions"],
      [404, "GET", "/v1/nothing"],
      [200, "GET", "/v1/models"],
      [404, "GET", "/v1/models/nothing"],
      [400, "GET", "/v1/%zz"],
      [204, "OPTIONS", "/v1/chat/completions", { headers: preflight }],
    ];
    for (const [status, method, path, init] of asks) {
      const response = await fetch(`${gateway.url}${path}`, { method, ...init });
      const label = `${method} ${path}`;
      assert.equal(response.status, status, label);
      assert.match(response.headers.get("content-security-policy") ?? "", /(^|; )sandbox$/, label);
      assert.equal(response.headers.get("x-content-type-options"), "nosniff", label);
    }
    for (const bytes of ["no HTTP\r\n\r\n", "GET /v1/models HTTP/1.1\r\n\r\n"]) {
      const { status, head } = await rawExchange(gateway.url, bytes);
      assert.equal(status, 400);
      assert.match(head, /\r\ncontent-security-policy: sandbox\r\n/);
    }
  });
});
