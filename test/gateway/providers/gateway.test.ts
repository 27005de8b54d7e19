import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import OpenAI from "openai";
import type { UpstreamSpec } from "../../../src/api/upstream.ts";
import { startProvider, type ProviderDouble } from "../../doubles/provider.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { freePort } from "../../support/free-port.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { until } from "../../support/until.ts";
import { bearer, secretKey, specOf, status } from "./fixture.ts";

const gatewayOptions = { env: { ACME_KEY: secretKey } };
const noKey = { auth: { type: "bearer", valueFrom: { env: "NO_SUCH_KEY" } } };
const ask = { model: "big", messages: [{ role: "user" as const, content: "hello" }] };

function upstream(name: string, spec: object): { name: string; spec: UpstreamSpec } {
  return { name, spec: specOf({ ...bearer, models: [{ ref: "big", upstreamModel: "gpt-double" }], ...spec }) };
}

interface Site extends TestGateway {
  readonly double: ProviderDouble;
  /** A chat, which may be awaited later. */
  chat(more?: object, init?: RequestInit): Promise<Response>;
  sdk(options?: object): OpenAI;
}

/** A gateway whose upstream acme is a double. */
async function site(
  spec: object = {},
  {
    double: sketch,
    ...options
  }: Parameters<typeof startGateway>[0] & {
    double?: Parameters<typeof startProvider>[0];
  } = {},
): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const double = stack.use(await startProvider(sketch));
  const gateway = stack.use(
    await startGateway({
      registry: { upstreams: [upstream("acme", { baseUrl: double.baseUrl, ...spec })] },
      ...options,
      gateway: { ...gatewayOptions, ...options.gateway },
    }),
  );
  const owned = stack.move();
  return {
    ...gateway,
    double,
    chat: (more = {}, init = {}) => gateway.post("/v1/chat/completions", { ...ask, ...more }, init),
    sdk: (more = {}) => sdk(gateway, more),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function sdk({ url }: TestGateway, more: object = {}): OpenAI {
  return new OpenAI({ apiKey: "the-clients-own-key", baseURL: `${url}/v1`, maxRetries: 0, ...more });
}

/** The lines of the access log about chats. */
function chatLines(gateway: TestGateway): string[] {
  const lines = gateway.log().split("\n");
  return lines.filter((line) => line.includes('"msg":"/v1/chat'));
}

describe("a provider behind the gateway", () => {
  it("answers under the name that the client used, and sees nothing of the client's own", async () => {
    await using at = await site({}, { double: { key: secretKey } });
    const client = at.sdk({
      defaultHeaders: { cookie: "session=client-cookie", "x-forwarded-for": "10.0.0.1", "x-forwarded-email": "a@b.c" },
    });
    const answer = await client.chat.completions.create(ask);
    assert.deepEqual([answer.model, answer.choices[0]?.message.content], ["big", "Hello there."]);
    const stream = await client.chat.completions.create({ ...ask, stream: true });
    const chunks = await Array.fromAsync(stream);
    assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), "Hello there.");
    assert.ok(chunks.every(({ model }) => model === "big"));
    const vectors = await client.embeddings.create({ model: "big", input: "x" });
    assert.deepEqual([vectors.model, vectors.data.length], ["big", 1]);
    assert.equal(at.double.posts.length, 3);
    for (const { headers, body } of at.double.posts) {
      assert.match(body, /"model":"gpt-double"/);
      assert.doesNotMatch(JSON.stringify(headers), /client|cookie|x-forwarded|stainless|10\.0\.0\.1/);
    }
    assert.equal(await at.metric('berth_upstream_requests_total{upstream="acme",outcome="200"}'), 3);
  });

  it("has its models listed, declared and discovered, also by a gateway that starts while it is down", async () => {
    const double = { key: secretKey, models: ["m1"], port: await freePort() };
    await using before = await site({ discover: { prefix: "acme/" } }, { double });
    const list = (gateway: TestGateway): Promise<string[]> =>
      Array.fromAsync(sdk(gateway).models.list(), ({ id }) => id);
    await until("the discovered one is listed", async () => (await list(before)).includes("acme/m1"));
    assert.deepEqual((await list(before)).slice(-2), ["big", "acme/m1"]);
    assert.equal((await before.sdk().models.retrieve("acme/m1")).id, "acme/m1");
    assert.equal((await before.sdk().chat.completions.create({ ...ask, model: "acme/m1" })).model, "acme/m1");
    assert.match(before.double.posts[0]?.body ?? "", /"model":"m1"/);
    await before.running.close({ drainSeconds: 0 });
    await before.double[Symbol.asyncDispose]();
    const from = join(before.stateDir, "discovered");
    const upstreams = [upstream("acme", { baseUrl: before.double.baseUrl, discover: { prefix: "acme/" } })];
    await using gateway = await startGateway({
      registry: { upstreams },
      gateway: gatewayOptions,
      onStart: (stateDir) => cpSync(from, join(stateDir, "discovered"), { recursive: true }),
    });
    assert.ok((await list(gateway)).includes("acme/m1"));
    const { error } = await envelopeOf(await gateway.post("/v1/chat/completions", { ...ask, model: "acme/m1" }));
    assert.equal(error.code, "dispatch.upstream_unavailable");
    for (const file of readdirSync(from)) assert.ok(!readFileSync(join(from, file), "utf8").includes(secretKey));
  });

  it("is waited for before the gateway says that it is ready, and never again", async () => {
    await using double = await startProvider();
    double.models = { kind: "hang" };
    const declared = (more: object) => [upstream("acme", { baseUrl: double.baseUrl, discover: {}, ...more })];
    await using gateway = await startGateway({ registry: { upstreams: declared({}) }, gateway: gatewayOptions });
    const ready = async (): Promise<number> => (await fetch(`${gateway.url}/readyz`)).status;
    const listings = () => double.asked.filter(({ method }) => method === "GET");
    assert.equal(await ready(), 503);
    assert.equal((await gateway.post("/v1/chat/completions", ask)).status, 200, "what is known is served");
    const listing = await until("it is asked for its models", () => listings()[0]);
    listing.response.end(JSON.stringify({ data: [{ id: "m1" }] }));
    await until("it is ready", async () => (await ready()) === 200);
    await gateway.publishRegistry({ upstreams: declared({ retries: 2 }) });
    await until("the list is asked for again", () => listings().length === 2);
    assert.equal(await ready(), 200);
  });

  it("gets requests of a protocol that it claims untranslated", async () => {
    await using at = await site({ capabilities: ["chat", "responses", "messages"] });
    await at.post("/v1/responses", { model: "big", input: "x" });
    await at.post("/v1/messages", { model: "big", max_tokens: 1, messages: [] });
    await at.post("/v1/messages/count_tokens", { model: "big", messages: [] });
    assert.deepEqual(
      at.double.posts.map(({ path }) => path),
      ["/v1/responses", "/v1/messages", "/v1/messages/count_tokens"],
    );
  });

  it("fails with its Retry-After, and with neither its key nor its address in answer, headers or log", async () => {
    await using at = await site({ retries: 0 });
    const body = JSON.stringify({ error: { message: `what about ${secretKey}?` } });
    at.double.fail(status(503, { "retry-after": "9", "x-key": secretKey }, body));
    const response = await at.chat();
    const text = await response.clone().text();
    const { error } = await envelopeOf(response);
    assert.deepEqual([response.status, error.code], [502, "dispatch.upstream_unavailable"]);
    assert.equal(response.headers.get("retry-after"), "9");
    const everything = `${text}${JSON.stringify([...response.headers])}${at.log()}`;
    assert.ok(!everything.includes(secretKey));
    assert.ok(!everything.includes(new URL(at.double.baseUrl).host));
  });

  it("fails within a stream: the stream ends with an error that the SDK reads", async () => {
    await using at = await site();
    const client = at.sdk();
    const error = `data: {"error":{"message":"bad key ${secretKey}","code":401}}\n\n`;
    for (const fault of [{ kind: "cut" as const }, status(200, { "content-type": "text/event-stream" }, error)]) {
      at.double.fail(fault);
      const stream = await client.chat.completions.create({ ...ask, stream: true });
      const refusal = await rejectionOf(Array.fromAsync(stream), OpenAI.APIError);
      assert.match(String(refusal.code), /^dispatch\./);
      assert.ok(!JSON.stringify(refusal.error).includes(secretKey));
    }
    assert.ok(!at.log().includes(secretKey));
  });

  it("is not called an engine where its answer cannot be read, or breaks off", async () => {
    await using at = await site();
    const [json, events] = [{ "content-type": "application/json" }, { "content-type": "text/event-stream" }];
    const cases = [
      [{}, status(200, json, "{"), "the answer is not JSON"],
      [{}, status(200, json, `{"error":{"code":500}}`), "the answer ends with a failure"],
      [{ stream: true }, status(200, events, "data: {}\n\n"), "the stream ended early"],
    ] as const;
    for (const [more, fault, message] of cases) {
      at.double.fail(fault);
      const text = await (await at.chat(more)).text();
      assert.ok(text.includes(JSON.stringify(message)), text);
    }
  });

  it("without its key gets nothing: the log names the key, and has no engine's time", async () => {
    await using at = await site(noKey);
    assert.equal((await envelopeOf(await at.chat())).error.code, "dispatch.upstream_failed");
    assert.match(at.log(), /upstream acme: the environment variable NO_SUCH_KEY is not set/);
    await until("it is logged", () => chatLines(at).length === 1);
    assert.doesNotMatch(chatLines(at).join(""), /engineMs|resolved/);
    assert.equal(at.double.posts.length, 0);
  });

  it("stops working when the client leaves", async () => {
    await using at = await site();
    at.double.fail({ kind: "hang" });
    const leaving = new AbortController();
    const asked = at.chat({}, { signal: leaving.signal });
    await until("it is there", () => at.double.posts.length > 0);
    leaving.abort();
    await assert.rejects(asked);
    await until("the provider notices", () => at.double.posts[0]?.response.destroyed);
  });

  it("reports their position to streams that wait for one of maxConcurrent", async () => {
    await using at = await site(
      { maxConcurrent: 1 },
      { gateway: { ...gatewayOptions, commentTimes: { firstMs: 20, everyMs: 20 } } },
    );
    at.double.fail({ kind: "hang" });
    const first = at.chat();
    await until("it is there", () => at.double.posts.length === 1);
    const waiting = await at.chat({ stream: true });
    assert.equal(at.double.posts.length, 1);
    at.double.posts[0]?.response.end("{}");
    await first;
    const text = await waiting.text();
    assert.match(text, /^: waiting upstream=acme state=queued position=1 waited=\d+s\n\n/);
    assert.match(text, /data: \[DONE\]\n\n$/);
  });

  it("counts as the engine's time only its last attempt, and the time before it as queued", async () => {
    await using at = await site({ maxConcurrent: 1, retries: 1 });
    at.double.fail({ kind: "hang" }, status(503));
    const first = at.chat();
    await until("it is there", () => at.double.posts.length === 1);
    const second = at.chat();
    const queued = 'berth_upstream_requests_queued{upstream="acme"}';
    await until("another waits", async () => (await at.metric(queued)) === 1);
    at.double.posts[0]?.response.writeHead(200, { "content-type": "application/json" }).end("{}");
    assert.deepEqual([(await first).status, (await second).status], [200, 200]);
    assert.equal(at.double.posts.length, 3, "one was tried twice");
    const line = await until("both are logged", () => chatLines(at)[1]);
    const { ms, engineMs, queuedMs }: Record<string, unknown> = JSON.parse(line);
    assert.ok(Number(queuedMs) > 0, line);
    // The pause between the two attempts, in which the provider did not work.
    assert.ok(Number(ms) - Number(queuedMs) - Number(engineMs) >= 120, line);
    assert.equal(await at.metric('berth_request_wait_seconds_count{slot="upstream acme"}'), 1);
  });
});

describe("a check of a provider", () => {
  it("says how many models it lists, or why it does not", async () => {
    await using double = await startProvider({ key: secretKey, models: ["m1", "m2"] });
    const { baseUrl } = double;
    const checks: readonly (readonly [name: string, spec: object, check: object])[] = [
      ["acme", { baseUrl }, { ok: true, models: 2, problem: null }],
      [
        "keyless",
        { baseUrl, auth: { type: "none" } },
        { ok: false, models: null, problem: "the provider answered 401 when asked for its models" },
      ],
      ["lost", { baseUrl, ...noKey }, { ok: false, problem: "the environment variable NO_SUCH_KEY is not set" }],
      ["away", { baseUrl: `http://127.0.0.1:${await freePort()}/v1` }, { ok: false, models: null }],
      [
        "outside",
        { baseUrl, auth: { type: "bearer", valueFrom: { file: "/etc/hostname" } } },
        {
          ok: false,
          problem: "the file /etc/hostname holds no key: only files below /keys are read (SVC_SECRETS_DIR)",
        },
      ],
    ];
    await using gateway = await startGateway({
      registry: { upstreams: checks.map(([name, spec]) => upstream(name, { ...spec, models: [{ ref: name }] })) },
      env: { SVC_SECRETS_DIR: "/keys" },
      gateway: gatewayOptions,
    });
    for (const [name, , check] of checks) {
      const response = await gateway.post(`/api/upstreams/${name}/check`, {});
      const found: unknown = await response.json();
      assert.equal(response.status, 200);
      assert.partialDeepStrictEqual(found, { name, ...check });
      if (name === "away") assert.match(JSON.stringify(found), /ECONNREFUSED/);
    }
    assert.equal((await gateway.post("/api/upstreams/nobody/check", {})).status, 404);
  });
});
