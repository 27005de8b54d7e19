import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { requestViewSchema, type RequestView } from "../../../src/api/management/request-routes.ts";
import { RecentRequests } from "../../../src/gateway/telemetry/recent-requests.ts";
import { RequestRecord } from "../../../src/gateway/telemetry/request-record.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { chunk, json, sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { startGateway as startWithTokens } from "../auth/gateway.ts";
import { until } from "../../support/until.ts";

const listSchema = z.object({ data: z.array(requestViewSchema) });
const chat = (content: string): object => ({ model: "primary", messages: [{ role: "user", content }], stream: true });

async function listOf(gateway: TestGateway, query = ""): Promise<RequestView[]> {
  const response = await fetch(`${gateway.url}/api/requests${query}`);
  return listSchema.parse(await response.json()).data;
}

describe("the list of requests", () => {
  it("has the last requests with their times, newest first, and without bodies", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await (await gateway.post("/v1/chat/completions", chat("a prompt"))).text();
    await (await gateway.post("/v1/chat/completions", { ...chat("other"), model: "nobody" })).text();
    await until("both have ended", async () => (await listOf(gateway)).length === 2);
    const [second, first] = await listOf(gateway);
    assert.deepEqual(
      [second?.model, second?.slot, second?.status, second?.error, second?.resolved, second?.engine_ms],
      ["nobody", "none", 404, "model.not_found", null, null],
    );
    assert.deepEqual(
      [first?.model, first?.slot, first?.status, first?.error, first?.resolved, first?.stream, first?.tokens_out],
      ["primary", "primary", 200, null, "engine-model", true, 2],
    );
    assert.ok(first?.first_token_ms !== null);
    assert.equal((await listOf(gateway, "?limit=1")).length, 1);
    assert.ok(!JSON.stringify(await listOf(gateway)).includes("prompt"));
    assert.equal((await fetch(`${gateway.url}/api/requests?limit=0`)).status, 400);
  });

  it("has bodies without secrets where bodies are recorded", async () => {
    await using gateway = await startGateway({ env: { SVC_REQUEST_BODIES: "1", SVC_HOLD_SECONDS: "0" } });
    const content = "my key is sk-abcdefghijklmnop, Authorization: Bearer abcdef0123456789";
    await (await gateway.post("/v1/chat/completions", { ...chat(content), api_key: "hunter2hunter2" })).text();
    await until("it has ended", async () => (await listOf(gateway)).length === 1);
    const [request] = await listOf(gateway);
    assert.match(request?.body ?? "", /my key is \*\*\*, Authorization: Bearer \*\*\*/);
    assert.match(request?.body ?? "", /"api_key":"\*\*\*"/);
    assert.doesNotMatch(request?.body ?? "", /hunter2|abcdef/);
  });

  it("has the engine's own text for administrators alone, of a whole answer and of a stream", async () => {
    const words = "CUDA error: out of memory at /srv/ggml.cu, key sk-abcdefghijklmnop";
    await using engine = await scriptedEngine((response, { body }) => {
      if (!body.includes('"stream":true')) return json(response, { error: { message: words } }, 500);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`${chunk({ content: "hel" })}data: ${JSON.stringify({ error: { message: words } })}\n\n`);
    });
    await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: { port: engine.port } });
    const ask = async (stream: boolean): Promise<string> => {
      const headers = {
        authorization: `Bearer ${await gateway.token("v1-only")}`,
        "content-type": "application/json",
      };
      const body = { ...chat("my own prompt"), stream };
      return await (await gateway.post("/v1/chat/completions", body, { headers })).text();
    };
    for (const answer of [await ask(false), await ask(true)]) {
      assert.match(answer, /dispatch\.upstream_failed/);
      assert.doesNotMatch(answer, /CUDA|ggml/);
    }
    const authorization = `Bearer ${await gateway.token("admin")}`;
    const listed = async (): Promise<string> =>
      await (await fetch(`${gateway.url}/api/requests`, { headers: { authorization } })).text();
    await until("both have ended", async () => JSON.parse(await listed()).data.length === 2);
    const said = "CUDA error: out of memory at /srv/ggml.cu, key ***";
    const shown = listSchema.parse(JSON.parse(await listed())).data;
    assert.deepEqual(
      shown.map(({ stream, error, engine_error }) => [stream, error, engine_error]),
      [true, false].map((stream) => [stream, "dispatch.upstream_failed", said]),
    );
    assert.ok(!(await listed()).includes("my own prompt"));
    const reader = { authorization: `Bearer ${await gateway.token("read-only")}` };
    assert.equal((await fetch(`${gateway.url}/api/requests`, { headers: reader })).status, 403);
  });

  it("stays within its bounds, and shows no body that was overwritten, whatever the sizes are", () => {
    const recent = new RecentRequests({ keepsBodies: true });
    // 4 MiB hold 64 KiB of each of the last bodies, of which 16 KiB are shown.
    for (const [sizeOf, count] of [
      [() => 70_000, 64],
      [(nth: number) => (nth % 50 === 0 ? 0 : (nth * 7919) % 70_000), undefined],
    ] as const) {
      for (let nth = 0; nth < 600; nth += 1) {
        const record = new RequestRecord();
        record.body = recent.keepBody(Buffer.from(`${nth} `.padEnd(sizeOf(nth), "x")));
        const ended = { requestId: String(nth), path: "/v1/chat/completions", slot: "primary", code: 200, seconds: 1 };
        recent.add({ ...ended, endedAt: nth, failure: undefined, record });
      }
      const kept = recent.list(1000);
      assert.deepEqual([kept.length, kept[0]?.requestId], [500, "599"]);
      const bodies = kept.flatMap(({ body }) => body ?? []);
      assert.equal(bodies.length, count ?? bodies.length);
      assert.ok(bodies.length >= 64);
      for (const [at, body] of bodies.entries()) {
        const nth = 599 - at;
        assert.equal(body, `${nth} `.padEnd(Math.min(sizeOf(nth), 16_384), "x"));
      }
    }
  });
});
