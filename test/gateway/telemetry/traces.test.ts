import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { ApiError } from "../../../src/api/errors.ts";
import { RequestRecord, type EndedRequest } from "../../../src/gateway/telemetry/request-record.ts";
import { Traces } from "../../../src/gateway/telemetry/traces.ts";
import { steadyNow } from "../../../src/lib/steady-clock.ts";
import { startProvider } from "../../doubles/provider.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { importedBy } from "../../support/packages.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { specOf } from "../providers/fixture.ts";
import { startReceiver, type Span } from "./receiver.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parent = "b7ad6b7169203331";
const sampled = `00-${traceId}-${parent}-01`;
const message = { messages: [{ role: "user", content: "a secret prompt" }] };

/** The whole answer of a chat that has these headers. */
async function chat(gateway: TestGateway, more: object = {}, headers: Record<string, string> = {}): Promise<number> {
  const all = { "content-type": "application/json", ...headers };
  const answer = await gateway.post(
    "/v1/chat/completions",
    { model: "primary", ...message, ...more },
    { headers: all },
  );
  await answer.text();
  return answer.status;
}

const valueOf = (span: Span | undefined, key: string): string | undefined => {
  const value = span?.attributes.find((each) => each.key === key)?.value;
  return value === undefined ? undefined : "stringValue" in value ? value.stringValue : value.intValue;
};

const request = (more: Partial<EndedRequest> = {}): EndedRequest => ({
  endedAt: 1_700_000_000_000,
  path: "/v1/chat/completions",
  slot: "primary",
  requestId: "1",
  code: 200,
  seconds: 1,
  failure: undefined,
  record: new RequestRecord(),
  ...more,
});

/** The spans that a receiver gets of such requests. */
async function spansOf(...requests: readonly EndedRequest[]): Promise<Span[]> {
  await using receiver = await startReceiver();
  const options = { endpoint: receiver.url, part: 1, version: "1", instance: "1", onFailing: assert.fail };
  {
    await using traces = new Traces(options);
    for (const ended of requests) {
      const trace = traces.begin({ traceparent: sampled });
      if (ended.record.engine !== undefined) trace.forAttempt();
      trace.ended?.(ended);
    }
  }
  return receiver.spans;
}

async function exemplars(gateway: TestGateway): Promise<string> {
  const headers = { accept: "application/openmetrics-text" };
  return await (await fetch(`${gateway.url}/metrics`, { headers })).text();
}

describe("a client's trace", () => {
  it("goes on to engines and providers, with a receiver of traces or without, and is in the exemplar if it is sampled", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine();
    await using provider = await startProvider();
    const spec = specOf({ baseUrl: provider.baseUrl, models: [{ ref: "big", upstreamModel: "gpt-double" }] });
    const tracestate = "congo=t61rcWkgMzE";
    const unsampled = sampled.replace(/01$/, "00");
    for (const [env, traceparent, exemplar] of [
      [{}, sampled, `trace_id="${traceId}"`],
      [{}, unsampled, 'request_id="'],
      [{ SVC_TRACES_ENDPOINT: receiver.url }, sampled, `trace_id="${traceId}"`],
    ] as const) {
      await using gateway = await startGateway({
        slots: { primary: { port: engine.port } },
        registry: { upstreams: [{ name: "acme", spec }] },
        env,
      });
      const seen = (): unknown[] => ["traceparent", "tracestate"].map((name) => engine.seen.at(-1)?.headers[name]);
      await chat(gateway, { stream: true }, { traceparent, tracestate });
      const [parent, state] = seen();
      assert.equal(state, tracestate);
      if (Object.keys(env).length === 0) assert.equal(parent, traceparent, "it is passed on as it is");
      assert.match(await exemplars(gateway), new RegExp(`first_token_seconds_bucket.* # \\{${exemplar}`));
      await chat(gateway, { model: "big" }, { traceparent, tracestate });
      assert.equal(provider.posts.at(-1)?.headers["tracestate"], tracestate);
      await chat(gateway, {}, { tracestate });
      assert.equal(seen()[1], undefined, "without its traceparent it means nothing");
    }
  });
});

describe("traces", () => {
  it("have a span of the request, and within it hold and engine, in the client's trace", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine((response) =>
      json(response, { model: "engine-model", usage: { prompt_tokens: 7, completion_tokens: 3 } }),
    );
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" } },
      env: { SVC_TRACES_ENDPOINT: `${receiver.url}/` },
    });
    const answered = chat(gateway, {}, { traceparent: sampled });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port });
    await answered;
    await until("the receiver has the spans", () => receiver.spans.length >= 3);
    const server = receiver.spans.find((span) => span.kind === 2);
    const others = receiver.spans.filter((span) => span !== server);
    const { name, kind, traceId: ofClient, parentSpanId } = server ?? {};
    assert.deepEqual([name, kind, ofClient, parentSpanId], ["chat primary", 2, traceId, parent]);
    const told = {
      "gen_ai.operation.name": "chat",
      "gen_ai.request.model": "primary",
      "gen_ai.response.model": "engine-model",
      "gen_ai.usage.input_tokens": "7",
      "gen_ai.usage.output_tokens": "3",
      "http.response.status_code": "200",
    };
    for (const [key, value] of Object.entries(told)) assert.equal(valueOf(server, key), value, key);
    for (const other of others) assert.equal(other.parentSpanId, server?.spanId, other.name);
    const hold = others.find((span) => span.name === "berth.hold");
    const call = others.find((span) => span.kind === 3);
    assert.equal(call?.name, "chat primary");
    assert.ok(hold !== undefined && BigInt(hold.endTimeUnixNano) <= BigInt(call.startTimeUnixNano) + 1_000_000n);
    assert.equal(engine.seen[0]?.headers["traceparent"], `00-${traceId}-${call.spanId}-01`);
    assert.ok(!receiver.texts.join().includes("secret"), "no prompt is in a trace");
  });

  it("have spans of the hold and the queue where a request waits", async () => {
    const record = new RequestRecord();
    const now = steadyNow();
    Object.assign(record, { requestedModel: "primary", heldMs: 200, queuedMs: 300, waitEndedAt: now - 500 });
    const ended = request({ endedAt: Date.now(), record });
    const spans = await spansOf(ended);
    const [hold, queue] = ["berth.hold", "berth.queue"].map((name) => spans.find((span) => span.name === name));
    const msOf = (span?: Span): number =>
      Number(BigInt(span?.endTimeUnixNano ?? 0) - BigInt(span?.startTimeUnixNano ?? 0)) / 1e6;
    assert.deepEqual([hold, queue].map(msOf).map(Math.round), [200, 300]);
    assert.equal(hold?.endTimeUnixNano, queue?.startTimeUnixNano);
    assert.ok(Math.abs(Number(BigInt(queue?.endTimeUnixNano ?? 0) / 1_000_000n) - (ended.endedAt - 500)) < 1000);
  });

  it("are whole whatever their names are", async () => {
    for (const name of ['"'.repeat(200), "\u0000".repeat(200), "模".repeat(200), ""]) {
      const record = new RequestRecord();
      Object.assign(record, { requestedModel: name });
      const endpoint = { host: "2001:db8::1", port: 65_535 };
      const most = Number.MAX_SAFE_INTEGER;
      record.engine = { startedAt: 9_000.123, ms: 1e3, model: name, endpoint, tokensIn: most, tokensOut: most };
      const failure = new ApiError("dispatch.upstream_failed", { message: name });
      const more = { path: "/v1/audio/transcriptions", slot: "s".repeat(64), requestId: `"${name}`, code: 502 };
      const spans = await spansOf(request({ ...more, failure, record }));
      const [server, engine] = [2, 3].map((kind) => spans.find((span) => span.kind === kind));
      assert.equal(valueOf(server, "berth.request_id"), `"${name}`);
      assert.equal(valueOf(engine, "gen_ai.usage.output_tokens"), String(most));
      assert.equal(valueOf(engine, "gen_ai.request.model"), name === "" ? undefined : name);
    }
  });

  it("have the status that OpenTelemetry wants of a server and of a client", async () => {
    const statuses = async (code: number, failure?: ApiError): Promise<(number | undefined)[]> => {
      const record = new RequestRecord();
      record.engine = { startedAt: 9_500, ms: 400, model: "m", tokensIn: undefined, tokensOut: undefined };
      const spans = await spansOf(request({ code, failure, record }));
      return [2, 3].map((kind) => spans.find((span) => span.kind === kind)?.status.code);
    };
    assert.deepEqual(await statuses(200), [0, 0]);
    assert.deepEqual(await statuses(499), [0, 0], "its client has left");
    assert.deepEqual(await statuses(400, new ApiError("dispatch.rejected", { status: 400 })), [0, 2]);
    assert.deepEqual(await statuses(502, new ApiError("dispatch.upstream_failed")), [2, 2]);
    assert.deepEqual(await statuses(200, new ApiError("dispatch.upstream_failed")), [2, 2], "a stream that had begun");
  });

  it("have a span of each attempt, and the last one has the outcome", async () => {
    await using receiver = await startReceiver();
    await using double = await startProvider();
    const spec = specOf({ baseUrl: double.baseUrl, models: [{ ref: "big", upstreamModel: "gpt-double" }] });
    await using gateway = await startGateway({
      registry: { upstreams: [{ name: "acme", spec }] },
      env: { SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "1" },
    });
    double.fail({ kind: "answer", status: 503, headers: {}, body: "{}" });
    assert.equal(await chat(gateway, { model: "big" }), 200);
    await until("the receiver has the spans", () => receiver.spans.length >= 3);
    const calls = receiver.spans.filter(({ kind }) => kind === 3);
    assert.deepEqual(
      double.posts.map(({ headers }) => String(headers["traceparent"]).slice(36, 52)).toSorted(),
      calls.map(({ spanId }) => spanId).toSorted(),
    );
    assert.deepEqual(
      calls
        .toSorted((one, other) => one.status.code - other.status.code)
        .map((call) => [call.name, call.status.code, valueOf(call, "berth.slot")]),
      [0, 2].map((status) => ["chat big", status, "upstream acme"]),
    );
  });

  it("name the error of a request that failed, the gateway's process, the engine's address and the conventions", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine();
    await using provider = await startProvider();
    const spec = specOf({ baseUrl: provider.baseUrl, models: [{ ref: "big", upstreamModel: "gpt-double" }] });
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      registry: { upstreams: [{ name: "acme", spec }] },
      env: { SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "1" },
    });
    for (const model of ["primary", "big", "nobody"]) await chat(gateway, { model });
    await until("the receiver has the spans", () => receiver.spans.length >= 5);
    const client = (model: string): Span | undefined =>
      receiver.spans.find((span) => span.kind === 3 && valueOf(span, "gen_ai.request.model") === model);
    assert.equal(valueOf(client("primary"), "server.address"), "127.0.0.1");
    assert.equal(valueOf(client("primary"), "server.port"), String(engine.port));
    assert.ok(client("big") !== undefined);
    assert.equal(valueOf(client("big"), "server.address"), undefined, "a provider's may be a secret");
    const failed = receiver.spans.find(({ name }) => name === "chat nobody");
    // The client is at fault: the server did not fail.
    assert.deepEqual([failed?.parentSpanId, failed?.status.code], [undefined, 0]);
    assert.equal(valueOf(failed, "error.type"), "model.not_found");
    const [text = ""] = receiver.texts;
    assert.match(text, /"service\.instance\.id","value":\{"stringValue":"gateway-\d+-[0-9a-f]{8}"\}/);
    assert.match(text, /"scope":\{"name":"berth","version":"0\.0\.0-test"\}/);
    assert.match(text, /"berth\.gen_ai\.conventions","value":\{"stringValue":"[^"]*-genai\/tree\/[0-9a-f]{8}"/);
  });

  it("are not made for requests without credentials or a sample, and a dead receiver delays no request", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      env: { SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "0" },
    });
    const guarded = { SVC_AUTH_ENABLED: "1", SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "1" };
    await using other = await startGateway({ env: guarded });
    assert.equal(await chat(other, {}, { traceparent: sampled, authorization: "Bearer wrong" }), 401);
    await other.running.close({ drainSeconds: 0 });
    assert.equal(receiver.spans.length, 0);
    await chat(gateway);
    const { traceparent = "", accept } = engine.seen[0]?.headers ?? {};
    assert.match(String(traceparent), /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    assert.equal(accept, "application/json");
    await chat(gateway, {}, { traceparent: sampled });
    await until("the sampled request is there", () => receiver.spans.length >= 2);
    assert.deepEqual([...new Set(receiver.spans.map((span) => span.traceId))], [traceId]);
    await receiver[Symbol.asyncDispose]();
    assert.equal(await chat(gateway, {}, { traceparent: sampled }), 200);
    await until("the log says so once", () => gateway.log().includes("traces are dropped"));
  });

  it("end before a receiver that does not answer has timed out", async () => {
    const asked = Promise.withResolvers<ServerResponse>();
    await using receiver = await startReceiver(asked.resolve);
    const told: string[] = [];
    const options = { endpoint: receiver.url, part: 1, version: "1", instance: "1" };
    const traces = new Traces({ ...options, onFailing: (message) => told.push(message) });
    traces.begin({}).ended?.(request());
    await traces[Symbol.asyncDispose]();
    assert.deepEqual(told, []);
    (await asked.promise).end("{}");
  });

  it("say where a receiver refuses them", async () => {
    await using receiver = await startReceiver((response) => void response.writeHead(404).end());
    const told = Promise.withResolvers<string>();
    const options = { endpoint: receiver.url, part: 1, version: "1", instance: "1", onFailing: told.resolve };
    await using traces = new Traces(options);
    traces.begin({}).ended?.(request());
    assert.equal(await told.promise, `${receiver.url}/v1/traces: Not Found`);
  });

  it("cost nothing without a receiver: their module is not even loaded", async () => {
    const root = fileURLToPath(new URL("../../../", import.meta.url));
    const files = await importedBy("src/gateway/main.ts");
    assert.ok(files.has(`${root}src/gateway/telemetry/trace-context.ts`));
    for (const name of ["traces", "gen-ai"]) assert.ok(!files.has(`${root}src/gateway/telemetry/${name}.ts`), name);
    assert.ok(![...files].some((file) => file.includes("@opentelemetry")));
  });
});
