import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { envelopeIn, envelopeOf } from "../support/envelope.ts";
import { startGateway } from "../support/gateway.ts";
import { rawExchange } from "../support/raw-http.ts";
import { json, scriptedEngine } from "../support/scripted-engine.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const text = JSON.stringify(chat);

describe("requests of real clients", () => {
  const packed = {
    gzip: gzipSync(text),
    deflate: deflateSync(text),
    br: brotliCompressSync(text),
    zstd: zstdCompressSync(text),
  };
  for (const [encoding, body] of Object.entries(packed)) {
    it(`accept a body packed with ${encoding}`, async () => {
      await using engine = await scriptedEngine();
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
      const response = await gateway.post("/v1/chat/completions", "", {
        body: new Uint8Array(body),
        headers: { "content-type": "application/json", "content-encoding": encoding },
      });
      assert.equal(response.status, 200);
      assert.equal(engine.seen[0]?.body, text.replace("primary", "engine-model"));
      assert.equal(engine.seen[0]?.headers["content-encoding"], undefined);
    });
  }

  it("accept chunks, a query, a trailing slash, and another spelling of a content type", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const { status } = await rawExchange(
      gateway.url,
      `POST /v1/chat/completions/?api-version=1 HTTP/1.1\r\nhost: x\r\ncontent-type: application/json; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
    );
    assert.equal(status, 200);
  });

  it("accept an absolute request line on every kind of route", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    for (const path of ["/v1/models", "/livez"]) {
      const { status } = await rawExchange(
        gateway.url,
        `GET http://berth.local${path} HTTP/1.1\r\nhost: berth.local\r\nconnection: close\r\n\r\n`,
      );
      assert.equal(status, 200, path);
    }
    const { status } = await rawExchange(
      gateway.url,
      `POST http://berth.local/v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    );
    assert.equal(status, 200);
  });

  it("get a stream over HTTP/1.0 without chunks, ended by closing the connection", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
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
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      env: { SVC_BODY_LIMIT: "1000" },
    });
    const head = (length: number): string =>
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
    const asked = await rawExchange(gateway.url, head(text.length), { isEnough: (seen) => seen.includes("\r\n\r\n") });
    assert.equal(asked.status, 100);
    const refused = await rawExchange(gateway.url, head(1001));
    assert.equal(refused.status, 413);
    assert.equal(envelopeIn(refused.body).error.code, "dispatch.payload_too_large");
  });

  it("may be HEAD wherever a GET is possible", async () => {
    await using gateway = await startGateway();
    const response = await fetch(`${gateway.url}/v1/models`, { method: "HEAD" });
    assert.deepEqual([response.status, await response.text()], [200, ""]);
    // These may be without an end.
    for (const path of ["/api/events", "/models/sse", "/api/slots/primary/logs?follow=1"])
      assert.equal((await fetch(`${gateway.url}${path}`, { method: "HEAD" })).status, 405, path);
  });

  it("with too much or too little of /v1 get an error that suggests the right URL", async () => {
    await using gateway = await startGateway();
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

  it("relay tools, stream options and every other field to the engine, byte for byte apart from the model", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const body = `{ "tools":[{"type":"function","function":{"name":"f","parameters":{"model":"x"}}}],"parallel_tool_calls" : false,\n"stream_options":{"include_usage":true},"seed":18446744073709551615, "model" : "primary" ,"x":"\\u00e9"}`;
    await gateway.post("/v1/chat/completions", body);
    assert.equal(engine.seen[0]?.body, body.replace('"primary"', '"engine-model"'));
  });

  it("keep credentials, cookies and forwarding headers from the engine", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await gateway.post("/v1/chat/completions", chat, {
      headers: {
        "content-type": "application/json",
        authorization: "Bearer sk-secret",
        cookie: "a=b",
        "x-forwarded-for": "10.0.0.1",
        "x-request-id": "mine-1",
      },
    });
    assert.deepEqual(Object.keys(engine.seen[0]?.headers ?? {}).toSorted(), [
      "accept",
      "content-length",
      "content-type",
      "host",
      "x-request-id",
    ]);
    assert.equal(engine.seen[0]?.headers["x-request-id"], "mine-1");
  });

  it("accept a body of images close to the limit", async () => {
    await using engine = await scriptedEngine((response, { body }) => json(response, { length: body.length }));
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const large = JSON.stringify({ ...chat, image: "A".repeat(63 * 1024 * 1024) });
    const response = await gateway.post("/v1/chat/completions", large);
    assert.deepEqual(await response.json(), { length: large.length + "engine-model".length - "primary".length });
  });
});

describe("pages of other origins", () => {
  const origin = "https://chat.example.com";
  const preflight = {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,x-stainless-os",
    },
  };

  it("may call nothing unless an origin is configured", async () => {
    await using gateway = await startGateway();
    const response = await fetch(`${gateway.url}/v1/chat/completions`, preflight);
    assert.equal(response.headers.get("access-control-allow-origin"), null);
    assert.equal(response.ok, false);
  });

  it("may call /v1 where SVC_CORS_ORIGINS names them, and never /api", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      env: { SVC_CORS_ORIGINS: origin },
    });
    const allowed = await fetch(`${gateway.url}/v1/chat/completions`, preflight);
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers.get("access-control-allow-origin"), origin);
    assert.equal(allowed.headers.get("access-control-allow-headers"), "authorization,x-stainless-os");
    const named = {
      ...preflight.headers,
      "access-control-request-headers": "content-type,x-forwarded-email,X-Forwarded-For",
    };
    const posing = await fetch(`${gateway.url}/v1/chat/completions`, { ...preflight, headers: named });
    assert.doesNotMatch(
      posing.headers.get("access-control-allow-headers") ?? "",
      /forwarded/i,
      "the proxy alone names a user",
    );
    const answered = await gateway.post("/v1/chat/completions", chat, {
      headers: { "content-type": "application/json", origin },
    });
    assert.equal(answered.headers.get("access-control-allow-origin"), origin);
    const listed = await fetch(`${gateway.url}/v1/models`, { headers: { origin } });
    assert.equal(listed.headers.get("access-control-allow-origin"), origin);
    const other = await fetch(`${gateway.url}/v1/models`, { headers: { origin: "https://evil.example.com" } });
    assert.equal(other.headers.get("access-control-allow-origin"), null);
    const api = await fetch(`${gateway.url}/api/slots`, { headers: { origin } });
    assert.equal(api.headers.get("access-control-allow-origin"), null);
  });
});

describe("a slot's request rules", () => {
  it("remove fields, set missing fields, and force fields whose names end in !", async () => {
    await using engine = await scriptedEngine();
    const request = { set: { temperature: 0.5, "top_p!": 0.9, seed: 1 }, strip: ["logit_bias"] };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: { request } } } });
    await gateway.post("/v1/chat/completions", { ...chat, temperature: 1, top_p: 1, logit_bias: {} });
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), {
      ...chat,
      model: "engine-model",
      temperature: 1,
      top_p: 0.9,
      seed: 1,
    });
  });
});

describe("a slot's request rules and a client that writes a field in other letters", () => {
  it("strip and force hold for an engine that folds case too", async () => {
    await using engine = await scriptedEngine();
    const request = { set: { "max_tokens!": 10 }, strip: ["logit_bias"] };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec: { request } } } });
    await gateway.post("/v1/chat/completions", { ...chat, Max_Tokens: 1e6, LOGIT_BIAS: {} });
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), { ...chat, model: "engine-model", max_tokens: 10 });
  });
});

describe("a method that a path of /api does not take", () => {
  for (const [method, path, allow] of [
    ["PUT", "/api/slots", "GET, HEAD, POST"],
    ["POST", "/api/slots/c1", "DELETE, GET, HEAD, PUT"],
    ["GET", "/api/slots/c1/restart", "POST"],
    ["GET", "/api/models/pull", "POST"],
    ["DELETE", "/api/models/pull?x=1", "POST"],
    ["POST", "/api/models/catalog", "GET, HEAD"],
  ] as const) {
    it(`is answered with the methods that the path takes: ${method} ${path}`, async () => {
      await using gateway = await startGateway();
      const body = method === "PUT" || method === "POST" ? { body: "{}" } : {};
      const headers = { "content-type": "application/json" };
      const response = await fetch(gateway.url + path, { method, ...body, ...("body" in body ? { headers } : {}) });
      assert.deepEqual([response.status, response.headers.get("allow")], [405, allow]);
    });
  }
});
