import assert from "node:assert/strict";
import { cpSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import OpenAI from "openai";
import type { UpstreamSpec } from "../../../src/api/upstream.ts";
import { startProvider } from "../../doubles/provider.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { scriptedEngine } from "../../support/scripted-engine.ts";
import { freePort } from "../../support/free-port.ts";
import { until } from "../../support/until.ts";
import { secretKey, specOf } from "./fixture.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { later } from "../../support/later.ts";

process.env["BERTH_TEST_ACME_KEY"] = secretKey;
const auth = { type: "bearer", valueFrom: { env: "BERTH_TEST_ACME_KEY" } };

function acme(spec: object): { name: string; spec: UpstreamSpec }[] {
  return [{ name: "acme", spec: specOf({ auth, models: [{ ref: "big", upstreamModel: "gpt-double" }], ...spec }) }];
}

function sdk({ url }: TestGateway, options: object = {}): OpenAI {
  return new OpenAI({ apiKey: "the-clients-own-key", baseURL: `${url}/v1`, maxRetries: 0, ...options });
}

const ask = { model: "big", messages: [{ role: "user" as const, content: "hello" }] };

describe("a provider behind the gateway", () => {
  it("answers under the name that the client used, and sees nothing of the client's own", async () => {
    await using double = await startProvider({ key: secretKey });
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    const client = sdk(gateway, {
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
    assert.equal(double.posts.length, 3);
    for (const { headers, body } of double.posts) {
      assert.match(body, /"model":"gpt-double"/);
      const all = JSON.stringify(headers);
      for (const own of ["client", "cookie", "x-forwarded", "stainless", "10.0.0.1"])
        assert.ok(!all.includes(own), all);
    }
  });

  it("lists its models, declared and discovered, and serves them", async () => {
    await using double = await startProvider({ models: ["m1"] });
    const upstreams = acme({ baseUrl: double.baseUrl, auth: undefined, discover: { prefix: "acme/" } });
    await using gateway = await startGateway({ registry: { upstreams } });
    const client = sdk(gateway);
    const ids = async (): Promise<string[]> => (await Array.fromAsync(client.models.list())).map(({ id }) => id);
    await until("the discovered one is listed", async () => (await ids()).includes("acme/m1"));
    assert.deepEqual((await ids()).slice(-2), ["big", "acme/m1"]);
    assert.equal((await client.models.retrieve("acme/m1")).id, "acme/m1");
    const answer = await client.chat.completions.create({ ...ask, model: "acme/m1" });
    assert.equal(answer.model, "acme/m1");
    assert.match(double.posts[0]?.body ?? "", /"model":"m1"/);
  });

  it("is known to a gateway that starts while it is down", async () => {
    await using double = await startProvider({ key: secretKey, models: ["m1"], port: await freePort() });
    const registry = { upstreams: acme({ baseUrl: double.baseUrl, discover: { prefix: "acme/" } }) };
    await using before = await startGateway({ registry });
    const list = (gateway: TestGateway): Promise<string[]> =>
      Array.fromAsync(sdk(gateway).models.list(), ({ id }) => id);
    await until("the discovered one is listed", async () => (await list(before)).includes("acme/m1"));
    await before.running.close({ drainSeconds: 0 });
    await double[Symbol.asyncDispose]();
    const from = join(before.stateDir, "discovered");
    await using gateway = await startGateway({
      registry,
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
    const upstreams = acme({ baseUrl: double.baseUrl, discover: {} });
    await using gateway = await startGateway({ registry: { upstreams } });
    const ready = async (): Promise<number> => (await fetch(`${gateway.url}/readyz`)).status;
    assert.equal(await ready(), 503);
    assert.equal((await gateway.post("/v1/chat/completions", ask)).status, 200, "what is known is served");
    const listing = await until("it is asked for its models", () =>
      double.asked.find(({ method }) => method === "GET"),
    );
    listing.response.end(JSON.stringify({ data: [{ id: "m1" }] }));
    await until("it is ready", async () => (await ready()) === 200);
    await gateway.publishRegistry({ upstreams: acme({ baseUrl: double.baseUrl, discover: {}, retries: 2 }) });
    await until(
      "the list is asked for again",
      () => double.asked.filter(({ method }) => method === "GET").length === 2,
    );
    assert.equal(await ready(), 200);
  });

  it("is added and removed with the registry", async () => {
    await using double = await startProvider();
    await using gateway = await startGateway();
    const client = sdk(gateway);
    assert.equal((await rejectionOf(client.chat.completions.create(ask), OpenAI.APIError)).code, "model.not_found");
    await gateway.publishRegistry({ upstreams: acme({ baseUrl: double.baseUrl }) });
    await until("it is there", async () => (await gateway.post("/v1/chat/completions", ask)).ok);
    await gateway.publishRegistry({});
    await until("it is gone", async () => (await gateway.post("/v1/chat/completions", ask)).status === 404);
  });

  it("serves no capability that it does not claim", async () => {
    await using double = await startProvider();
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    const form = new FormData();
    form.set("model", "big");
    form.set("file", new Blob(["x"]), "a.wav");
    const asked: readonly (readonly [path: string, body: unknown])[] = [
      ["/v1/rerank", { model: "big", query: "q", documents: ["d"] }],
      ["/v1/audio/speech", { model: "big", input: "x", voice: "v" }],
    ];
    for (const [path, body] of asked) {
      const { error } = await envelopeOf(await gateway.post(path, body));
      assert.equal(error.code, "dispatch.capability_mismatch", path);
    }
    const upload = await fetch(`${gateway.url}/v1/audio/transcriptions`, { method: "POST", body: form });
    assert.equal((await envelopeOf(upload)).error.code, "dispatch.capability_mismatch");
    assert.equal(double.posts.length, 0);
  });

  it("takes uploads as they come, with its own name for the model", async () => {
    await using double = await startProvider();
    const capabilities = ["transcription", "speech"];
    await using gateway = await startGateway({
      registry: { upstreams: acme({ baseUrl: double.baseUrl, capabilities }) },
    });
    const client = sdk(gateway);
    double.fail({ kind: "answer", status: 200, body: '{"text":"hello"}' });
    const file = await OpenAI.toFile(Buffer.from("sound ".repeat(50_000)), "a.wav");
    assert.equal((await client.audio.transcriptions.create({ model: "big", file })).text, "hello");
    const [asked] = double.posts;
    assert.equal(asked?.path, "/v1/audio/transcriptions");
    assert.match(asked?.headers["content-type"] ?? "", /^multipart\/form-data; boundary=/);
    assert.match(asked?.body ?? "", /name="model"\r\n\r\ngpt-double\r\n/);
    assert.ok(asked?.body.includes("sound ".repeat(50_000)));
    double.fail({ kind: "answer", status: 200, headers: { "content-type": "audio/mpeg" }, body: "sound" });
    const speech = await client.audio.speech.create({ model: "big", input: "x", voice: "v" });
    assert.deepEqual([speech.headers.get("content-type"), await speech.text()], ["audio/mpeg", "sound"]);
    assert.equal(double.posts[1]?.headers.accept, "*/*");
  });

  it("gives dispatch.rejected for a client's error that it reports as 500, and its circuit stays closed", async () => {
    await using double = await startProvider();
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    for (let at = 0; at < 7; at++) {
      double.fail({
        kind: "answer",
        status: 500,
        body: '{"error":{"message":"image input is not supported","code":500}}',
      });
      const { error } = await envelopeOf(await gateway.post("/v1/chat/completions", { model: "big", messages: [] }));
      assert.equal(error.code, "dispatch.rejected", `request ${at}`);
    }
    assert.equal(double.posts.length, 7);
  });

  it("gets requests of a protocol that it claims untranslated", async () => {
    await using double = await startProvider();
    const capabilities = ["chat", "responses", "messages", "rerank"];
    await using gateway = await startGateway({
      registry: { upstreams: acme({ baseUrl: double.baseUrl, capabilities }) },
    });
    await gateway.post("/v1/responses", { model: "big", input: "x" });
    await gateway.post("/v1/messages", { model: "big", max_tokens: 1, messages: [] });
    await gateway.post("/v1/messages/count_tokens", { model: "big", messages: [] });
    double.fail({ kind: "answer", status: 200, body: '{"results":[{"index":0,"relevance_score":0.5}]}' });
    const ranked = await gateway.post("/rerank", { model: "big", query: "q", documents: ["d"] });
    assert.deepEqual(await ranked.json(), {
      object: "list",
      model: "big",
      results: [{ index: 0, relevance_score: 0.5 }],
      usage: { prompt_tokens: 0, total_tokens: 0 },
    });
    assert.deepEqual(
      double.posts.map(({ path }) => path),
      ["/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/rerank"],
    );
  });

  const failures: readonly (readonly [status: number, answered: number, code: string])[] = [
    [400, 400, "dispatch.rejected"],
    [401, 502, "dispatch.upstream_failed"],
    [403, 502, "dispatch.upstream_failed"],
    [429, 429, "dispatch.rejected"],
    [500, 502, "dispatch.upstream_failed"],
    [502, 502, "dispatch.upstream_failed"],
    [503, 502, "dispatch.upstream_unavailable"],
    [504, 504, "dispatch.upstream_timeout"],
  ];
  for (const [status, answered, code] of failures) {
    it(`is reported as ${answered} ${code} when it answers ${status}, and its key is nowhere in the answer`, async () => {
      await using double = await startProvider();
      await using gateway = await startGateway({
        registry: { upstreams: acme({ baseUrl: double.baseUrl, retries: 0 }) },
      });
      const body = JSON.stringify({ error: { message: `what about ${secretKey}?` } });
      double.fail({ kind: "answer", status, headers: { "retry-after": "9", "x-key": secretKey }, body });
      const response = await gateway.post("/v1/chat/completions", ask);
      const text = await response.clone().text();
      assert.deepEqual([response.status, (await envelopeOf(response)).error.code], [answered, code]);
      assert.equal(response.headers.get("retry-after"), [400, 429, 503].includes(status) ? "9" : null);
      const everything = `${text}${JSON.stringify([...response.headers])}${gateway.log()}`;
      assert.ok(!everything.includes(secretKey));
      assert.ok(!everything.includes(double.baseUrl.slice("http://".length, -"/v1".length)), "nor its address");
    });
  }

  it("fails within a stream: the stream ends with an error that the SDK reads", async () => {
    await using double = await startProvider();
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    const client = sdk(gateway);
    for (const fault of [
      { kind: "cut" as const },
      {
        kind: "answer" as const,
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: `data: {"error":{"message":"bad key ${secretKey}","code":401}}\n\n`,
      },
    ]) {
      double.fail(fault);
      const stream = await client.chat.completions.create({ ...ask, stream: true });
      const refusal = await rejectionOf(Array.fromAsync(stream), OpenAI.APIError);
      assert.match(String(refusal.code), /^dispatch\./);
      assert.ok(!JSON.stringify(refusal.error).includes(secretKey));
    }
    assert.ok(!gateway.log().includes(secretKey));
  });

  it("does no harm with an endlessly nested refusal, nor does an engine", async () => {
    const body = `${"[".repeat(30_000)}${"]".repeat(30_000)}`;
    await using double = await startProvider();
    await using engine = await scriptedEngine((response) => void response.writeHead(400).end(body));
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      registry: { upstreams: acme({ baseUrl: double.baseUrl }) },
    });
    double.fail({ kind: "answer", status: 400, body });
    for (const model of ["big", "primary"]) {
      const response = await gateway.post("/v1/chat/completions", { ...ask, model });
      assert.equal(response.status, 400);
      assert.equal((await envelopeOf(response)).error.details?.["upstream"], "[".repeat(2000));
    }
  });

  it("says in the log which key is missing", async () => {
    await using double = await startProvider();
    const auth = { type: "bearer", valueFrom: { env: "BERTH_TEST_NO_SUCH_KEY" } };
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl, auth }) } });
    const { error } = await envelopeOf(await gateway.post("/v1/chat/completions", ask));
    assert.equal(error.code, "dispatch.upstream_failed");
    assert.match(gateway.log(), /upstream acme: the environment variable BERTH_TEST_NO_SUCH_KEY is not set/);
  });

  it("stops working when the client leaves", async () => {
    await using double = await startProvider({ tokenMs: 50 });
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    double.fail({ kind: "hang" });
    for (const stream of [false, true]) {
      const before = double.posts.length;
      const leaving = new AbortController();
      const asked = gateway.post("/v1/chat/completions", { ...ask, stream }, { signal: leaving.signal });
      await until("it is there", () => double.posts.length > before);
      if (stream) await (await asked).body?.getReader().read();
      leaving.abort();
      await assert.rejects(async () => await (await asked).text());
      await until("the provider notices", () => double.posts[before]?.response.destroyed);
    }
  });

  it("reports their position to streams that wait for one of maxConcurrent", async () => {
    await using double = await startProvider();
    await using gateway = await startGateway({
      registry: { upstreams: acme({ baseUrl: double.baseUrl, maxConcurrent: 1 }) },
      gateway: { holdTimes: { firstCommentMs: 20, everyMs: 20 } },
    });
    double.fail({ kind: "hang" });
    const first = gateway.post("/v1/chat/completions", ask);
    await until("it is there", () => double.posts.length === 1);
    const waiting = await gateway.post("/v1/chat/completions", { ...ask, stream: true });
    assert.equal(double.posts.length, 1);
    double.posts[0]?.response.end("{}");
    await first;
    const text = await waiting.text();
    assert.match(text, /^: waiting upstream=acme state=queued position=1 waited=\d+s\n\n/);
    assert.match(text, /data: \[DONE\]\n\n$/);
  });

  it("counts as the engine's time only its last attempt, and the time before it as queued", async () => {
    await using double = await startProvider({ key: secretKey });
    const declared = acme({ baseUrl: double.baseUrl, maxConcurrent: 1, retries: 1 });
    await using gateway = await startGateway({ registry: { upstreams: declared } });
    double.fail({ kind: "hang" }, { kind: "answer", status: 503, headers: { "retry-after": "1" }, body: "{}" });
    const first = gateway.post("/v1/chat/completions", ask);
    await until("it is there", () => double.posts.length === 1);
    const second = gateway.post("/v1/chat/completions", ask);
    await until(
      "another waits",
      async () => (await gateway.metric('berth_upstream_requests_queued{upstream="acme"}')) === 1,
    );
    double.posts[0]?.response.writeHead(200, { "content-type": "application/json" }).end("{}");
    assert.deepEqual([(await first).status, (await second).status], [200, 200]);
    assert.equal(double.posts.length, 3, "one was tried twice");
    await until("both are logged", () => gateway.log().split('"msg":"/v1/chat').length === 3);
    const lines = gateway
      .log()
      .split("\n")
      .filter((line) => line.includes('"msg":"/v1/chat'));
    const last: Record<string, unknown> = JSON.parse(lines.at(-1) ?? "{}");
    const [ms, engineMs, queuedMs] = [last["ms"], last["engineMs"], last["queuedMs"]].map(Number);
    assert.ok((queuedMs ?? 0) > 0, lines.at(-1));
    // The provider asked for a pause of one second, in which it did not work.
    assert.ok((ms ?? 0) >= 1000 && (engineMs ?? NaN) <= (ms ?? 0) - (queuedMs ?? 0) - 990, lines.at(-1));
    assert.equal(await gateway.metric('berth_request_wait_seconds_count{slot="upstream acme"}'), 1);
  });

  it("has no engine's time where nothing was sent", async () => {
    await using double = await startProvider();
    const withoutKey = { type: "bearer", valueFrom: { env: "BERTH_TEST_NO_SUCH_KEY" } };
    const declared = acme({ baseUrl: double.baseUrl, auth: withoutKey });
    await using gateway = await startGateway({ registry: { upstreams: declared } });
    assert.equal((await gateway.post("/v1/chat/completions", ask)).status, 502);
    await until("it is logged", () => gateway.log().includes('"msg":"/v1/chat'));
    const line = gateway
      .log()
      .split("\n")
      .find((each) => each.includes('"msg":"/v1/chat'));
    assert.doesNotMatch(line ?? "", /engineMs|resolved/);
    assert.equal(double.posts.length, 0);
  });

  it("ends its streams before the gateway stops, in the time there is", async () => {
    await using double = await startProvider({ tokenMs: 30 });
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    const response = await gateway.post("/v1/chat/completions", { ...ask, stream: true });
    const text = later(response.text());
    await gateway.running.close({ drainSeconds: 60 });
    assert.match(await text, /data: \[DONE\]\n\n$/);
  });

  it("shows in the metrics", async () => {
    await using double = await startProvider();
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    await gateway.post("/v1/chat/completions", ask);
    assert.equal(await gateway.metric('berth_upstream_requests_total{upstream="acme",outcome="200"}'), 1);
    assert.equal(await gateway.metric('berth_upstream_circuit{upstream="acme",state="closed"}'), 1);
    assert.equal(await gateway.metric('berth_upstream_models{upstream="acme"}'), 1);
  });
});

describe("a check of a provider", () => {
  const checkOf = async (gateway: TestGateway): Promise<unknown> => {
    const response = await gateway.post("/api/upstreams/acme/check", {});
    assert.equal(response.status, 200);
    return await response.json();
  };

  it("says how many models it lists, or why it does not", async () => {
    await using double = await startProvider({ key: secretKey, models: ["m1", "m2"] });
    await using gateway = await startGateway({ registry: { upstreams: acme({ baseUrl: double.baseUrl }) } });
    assert.partialDeepStrictEqual(await checkOf(gateway), { name: "acme", ok: true, models: 2, problem: null });
    const wrong = { type: "bearer", valueFrom: { env: "BERTH_TEST_NO_SUCH_KEY" } };
    for (const [spec, problem] of [
      [{ baseUrl: double.baseUrl, auth: { type: "none" } }, /^the provider answered 401 when asked for its models$/],
      [{ baseUrl: double.baseUrl, auth: wrong }, /^the environment variable BERTH_TEST_NO_SUCH_KEY is not set$/],
      [{ baseUrl: `http://127.0.0.1:${await freePort()}/v1` }, /ECONNREFUSED/],
    ] as const) {
      await using other = await startGateway({ registry: { upstreams: acme(spec) } });
      const check = await checkOf(other);
      assert.partialDeepStrictEqual(check, { ok: false, models: null });
      assert.match(JSON.stringify(check), new RegExp(`"problem":"[^"]*${problem.source.replace(/^\^|\$$/g, "")}`));
    }
    assert.equal((await gateway.post("/api/upstreams/nobody/check", {})).status, 404);
  });

  it("says which files hold keys", async () => {
    const auth = { type: "bearer", valueFrom: { file: "/etc/hostname" } };
    const declared = acme({ baseUrl: "http://127.0.0.1:1/v1", auth });
    await using gateway = await startGateway({ registry: { upstreams: declared }, env: { SVC_SECRETS_DIR: "/keys" } });
    const problem = "the file /etc/hostname holds no key: only files below /keys are read (SVC_SECRETS_DIR)";
    assert.partialDeepStrictEqual(await checkOf(gateway), { ok: false, problem });
  });
});
