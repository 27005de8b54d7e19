import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { passiveType } from "../../src/gateway/relay/passive-type.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { rawExchange } from "../support/raw-http.ts";
import { scriptedEngine, type ScriptedEngine } from "../support/scripted-engine.ts";
import { specOf } from "./upstreams/fixture.ts";

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
