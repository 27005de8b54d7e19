import assert from "node:assert/strict";
import { createServer } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { ApiError } from "../../../src/api/errors.ts";
import {
  ownTrace,
  passedTrace,
  readTraceparent,
  readTracestate,
  UnsampledTraces,
  type SpanIds,
} from "../../../src/gateway/telemetry/trace-context.ts";
import { OtlpExporter } from "../../../src/gateway/telemetry/otlp-exporter.ts";
import { RequestRecord, type EndedRequest } from "../../../src/gateway/telemetry/request-record.ts";
import { TraceSampler } from "../../../src/gateway/telemetry/trace-sampler.ts";
import { RequestSpans } from "../../../src/gateway/telemetry/request-spans.ts";
import { startProvider } from "../../doubles/provider.ts";
import { startGateway } from "../../support/gateway.ts";
import { json, sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { listen } from "../../support/listen.ts";
import { until } from "../../support/until.ts";
import { specOf } from "../upstreams/fixture.ts";
import { importedBy } from "../../support/packages.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const parent = "b7ad6b7169203331";
const sampled = `00-${traceId}-${parent}-01`;
const chat = { model: "primary", messages: [{ role: "user", content: "a secret prompt" }] };

/** The protocol, strictly: opentelemetry-proto, trace/v1, in its JSON encoding. */
const attributes = z.array(
  z.strictObject({
    key: z.string().min(1),
    value: z.union([
      z.strictObject({ stringValue: z.string() }),
      z.strictObject({ intValue: z.string().regex(/^\d+$/) }),
    ]),
  }),
);
const nanos = z.string().regex(/^\d{19}$/);
const spanSchema = z
  .strictObject({
    traceId: z.string().regex(/^[0-9a-f]{32}$/),
    spanId: z.string().regex(/^[0-9a-f]{16}$/),
    parentSpanId: z
      .string()
      .regex(/^[0-9a-f]{16}$/)
      .optional(),
    name: z.string().min(1),
    kind: z.union([z.literal(1), z.literal(2), z.literal(3)]),
    startTimeUnixNano: nanos,
    endTimeUnixNano: nanos,
    attributes,
    status: z.strictObject({ code: z.union([z.literal(0), z.literal(2)]) }),
  })
  .refine(({ startTimeUnixNano: from, endTimeUnixNano: to }) => BigInt(from) <= BigInt(to), "ends after its start");
const exportSchema = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string(), attributes }),
          spans: z.array(spanSchema),
        }),
      ),
    }),
  ),
});
type Span = z.output<typeof spanSchema>;

/** A receiver of OTLP/HTTP that refuses whatever the protocol does not allow. */
async function startReceiver(): Promise<{ url: string; spans: Span[]; texts: string[] } & AsyncDisposable> {
  const spans: Span[] = [];
  const texts: string[] = [];
  const server = createServer((request, response) => {
    void textOf(request).then((body) => {
      const isRight = request.method === "POST" && request.url === "/v1/traces";
      const parsed = exportSchema.safeParse(JSON.parse(body));
      texts.push(parsed.success ? body : `${body} ${parsed.error.message}`);
      if (parsed.success && isRight && request.headers["content-type"] === "application/json")
        spans.push(...parsed.data.resourceSpans.flatMap((each) => each.scopeSpans.flatMap((scope) => scope.spans)));
      response.writeHead(parsed.success && isRight ? 200 : 400, { "content-type": "application/json" }).end("{}");
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    texts,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
}

const valueOf = (span: Span | undefined, key: string): string | undefined => {
  const value = span?.attributes.find((each) => each.key === key)?.value;
  return value === undefined ? undefined : "stringValue" in value ? value.stringValue : value.intValue;
};

/** Of a request that has ended 10 s after the start of the steady clock. */
function spansOf(request: Omit<EndedRequest, "endedAt">, ids: SpanIds | undefined, wallMs = 1_700_000_000_000): Span[] {
  assert.ok(ids !== undefined, "it is not sampled");
  const spans = new RequestSpans({ ...request, endedAt: wallMs }, ids, 10_000);
  const memory = Buffer.alloc(spans.mostBytes);
  const text = memory.toString("utf8", 0, spans.put(memory, 0));
  const found = z.array(spanSchema).parse(JSON.parse(`[${text.replace(/,$/, "")}]`));
  assert.equal(found.length, spans.count);
  return found;
}

describe("traceparent", () => {
  it("is read as the standard says", () => {
    assert.deepEqual(readTraceparent(sampled), { traceId, spanId: parent, flags: 1 });
    assert.equal(readTraceparent(`00-${traceId}-${parent}-00`)?.flags, 0);
    // What the flags of a later version mean is not known, apart from the first.
    assert.deepEqual(readTraceparent(`01-${traceId}-${parent}-ff-more`), { traceId, spanId: parent, flags: 1 });
    for (const bad of [
      undefined,
      "",
      `ff-${traceId}-${parent}-01`,
      `${sampled}-more`,
      `00-${"0".repeat(32)}-${parent}-01`,
      `00-${traceId}-${"0".repeat(16)}-01`,
      `00-${traceId.toUpperCase()}-${parent}-01`,
      `${sampled}\r\nx: y`,
    ])
      assert.equal(readTraceparent(bad), undefined, bad);
  });

  it("is in no exemplar where the trace is not sampled", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const headers = { "content-type": "application/json", traceparent: sampled.replace(/01$/, "00") };
    await (await gateway.post("/v1/chat/completions", { ...chat, stream: true }, { headers })).text();
    const page = await fetch(`${gateway.url}/metrics`, { headers: { accept: "application/openmetrics-text" } });
    assert.match(await page.text(), /first_token_seconds_bucket.* # \{request_id="/);
  });

  it("is passed on unchanged where this gateway records no spans", () => {
    const none = { choose: () => false, chooseOfClient: () => false };
    for (const flags of ["00", "01", "02", "03", "a5"]) {
      const headers = { traceparent: `00-${traceId}-${parent}-${flags}`, tracestate: "a=1" };
      for (const passed of [passedTrace(headers), ownTrace(headers, none)]) {
        const { traceparent, tracestate, spans } = passed ?? {};
        assert.deepEqual([traceparent, tracestate, spans], [headers.traceparent, "a=1", undefined]);
      }
    }
    assert.equal(passedTrace({ tracestate: "a=1" }), undefined);
    assert.equal(ownTrace({}, none).spans, undefined);
  });

  it("of requests that are not sampled differ", () => {
    const none = { choose: () => false, chooseOfClient: () => false };
    const headers = Array.from({ length: 500 }, () => ownTrace({}, none).traceparent);
    for (const header of headers) assert.match(header, /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    assert.equal(new Set(headers.map((header) => header.slice(3, 35))).size, 500, "traces");
    assert.equal(new Set(headers.map((header) => header.slice(36, 52))).size, 500, "spans");
  });

  it("of requests that are not sampled differ where their numbers end and begin again", () => {
    for (const first of [2 ** 24 - 300, 2 ** 24 - 1, 0xff, 0x1ff_ff]) {
      const unsampled = new UnsampledTraces(first);
      const traces = Array.from({ length: 1000 }, () => unsampled.next());
      for (const { traceparent, lines, isSampled } of traces) {
        assert.equal(isSampled, false);
        assert.deepEqual(readTraceparent(traceparent)?.flags, 0, traceparent);
        assert.equal(lines, `traceparent: ${traceparent}\r\n`);
      }
      assert.equal(new Set(traces.map((trace) => trace.traceId)).size, 1000, "traces");
      assert.equal(new Set(traces.map(({ traceparent }) => traceparent.slice(36, 52))).size, 1000, "spans");
      for (const { traceId: own, traceparent } of traces) assert.ok(traceparent.startsWith(`00-${own}-`));
    }
  });

  it("has its tracestate beside it, as far as the standard allows", () => {
    for (const [header, passed] of [
      ["congo=t61rcWkgMzE,rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"],
      [undefined, undefined],
      ["", undefined],
      ["a=1\r\nx: y", undefined],
      ["a=é", undefined],
      [`a=1,${"b".repeat(506)}=2`, `a=1,${"b".repeat(506)}=2`],
      [`a=1,${"b".repeat(507)}=2`, "a=1"],
      ["b".repeat(600), undefined],
    ] as const)
      assert.equal(readTracestate(header), passed, header);
  });

  it("goes on with its tracestate to engines and providers, with a receiver of traces or without", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine();
    await using provider = await startProvider();
    const spec = specOf({ baseUrl: provider.baseUrl, models: [{ ref: "big", upstreamModel: "gpt-double" }] });
    const headers = { "content-type": "application/json", traceparent: sampled, tracestate: "congo=t61rcWkgMzE" };
    for (const env of [{}, { SVC_TRACES_ENDPOINT: receiver.url }]) {
      await using gateway = await startGateway({
        slots: { primary: { port: engine.port } },
        registry: { upstreams: [{ name: "acme", spec }] },
        env,
      });
      await (await gateway.post("/v1/chat/completions", chat, { headers })).text();
      assert.equal(engine.seen.at(-1)?.headers["tracestate"], "congo=t61rcWkgMzE");
      await (await gateway.post("/v1/chat/completions", { ...chat, model: "big" }, { headers })).text();
      assert.equal(provider.posts.at(-1)?.headers["tracestate"], "congo=t61rcWkgMzE");
      const alone = { "content-type": "application/json", tracestate: "congo=t61rcWkgMzE" };
      await (await gateway.post("/v1/chat/completions", chat, { headers: alone })).text();
      assert.equal(engine.seen.at(-1)?.headers["tracestate"], undefined, "without its traceparent it means nothing");
    }
  });

  it("reaches the engine without a receiver of traces, and the exemplar names it", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const headers = { "content-type": "application/json", traceparent: sampled };
    await (await gateway.post("/v1/chat/completions", { ...chat, stream: true }, { headers })).text();
    assert.equal(engine.seen[0]?.headers["traceparent"], sampled);
    await (await gateway.post("/v1/chat/completions", chat)).text();
    assert.equal(engine.seen[1]?.headers["traceparent"], undefined);
    const page = await fetch(`${gateway.url}/metrics`, { headers: { accept: "application/openmetrics-text" } });
    assert.match(await page.text(), new RegExp(`first_token_seconds_bucket.* # \\{trace_id="${traceId}"\\}`));
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
    const headers = { "content-type": "application/json", traceparent: sampled };
    const answered = gateway.post("/v1/chat/completions", chat, { headers });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port });
    await (await answered).text();
    await until("the receiver has the spans", () => receiver.spans.length >= 3);
    const [server, ...others] = receiver.spans;
    assert.deepEqual(
      [server?.name, server?.kind, server?.traceId, server?.parentSpanId],
      ["chat primary", 2, traceId, parent],
    );
    assert.equal(valueOf(server, "gen_ai.operation.name"), "chat");
    assert.equal(valueOf(server, "gen_ai.request.model"), "primary");
    assert.equal(valueOf(server, "gen_ai.response.model"), "engine-model");
    assert.equal(valueOf(server, "gen_ai.usage.input_tokens"), "7");
    assert.equal(valueOf(server, "gen_ai.usage.output_tokens"), "3");
    assert.equal(valueOf(server, "http.response.status_code"), "200");
    for (const other of others) assert.equal(other.parentSpanId, server?.spanId, other.name);
    const hold = others.find(({ name }) => name === "berth.hold");
    const call = others.find(({ kind }) => kind === 3);
    assert.equal(call?.name, "chat primary");
    assert.ok(hold !== undefined && BigInt(hold.endTimeUnixNano) <= BigInt(call.startTimeUnixNano) + 1_000_000n);
    assert.equal(engine.seen[0]?.headers["traceparent"], `00-${traceId}-${call.spanId}-01`);
    assert.ok(!receiver.texts.join().includes("secret"), "no prompt is in a trace");
  });

  it("have a span of the queue where a request waits for another", () => {
    const record = new RequestRecord();
    Object.assign(record, { requestedModel: "primary", queuedMs: 300, waitEndedAt: 9_500 });
    record.engine = { startedAt: 9_500, ms: 400, model: "m", tokensIn: undefined, tokensOut: undefined };
    const trace = ownTrace({ traceparent: sampled }, new TraceSampler(1));
    const ended = { path: "/v1/chat/completions", slot: "primary", requestId: "1", code: 200, seconds: 1 };
    const spans = spansOf({ ...ended, failure: undefined, record }, trace.spans);
    assert.deepEqual(
      spans.map(({ name, startTimeUnixNano: from, endTimeUnixNano: to }) => [name, from.slice(7, 13), to.slice(7, 13)]),
      [
        ["chat primary", "999000", "000000"],
        ["berth.queue", "999200", "999500"],
        ["chat primary", "999500", "999900"],
      ],
    );
  });

  it("are whole and within their bound whatever their names are, and whatever the clock says", () => {
    const ids = ownTrace({ traceparent: sampled }, new TraceSampler(1)).spans;
    for (const name of ['"'.repeat(200), "\u0000".repeat(200), "\ud800".repeat(200), "模".repeat(200), ""])
      for (const wallMs of [1_700_000_000_000, 1_700_000_000_000.25, 1_767_225_599_999.75]) {
        const record = new RequestRecord();
        Object.assign(record, { requestedModel: name, heldMs: 1.5, queuedMs: 1e-7, waitEndedAt: 9_000 });
        const endpoint = { host: "2001:db8::1", port: 65_535 };
        const most = Number.MAX_SAFE_INTEGER;
        record.engine = { startedAt: 9_000.123, ms: 1e3, model: name, endpoint, tokensIn: most, tokensOut: most };
        const failure = new ApiError("dispatch.upstream_failed", { message: name });
        const ended = { path: "/v1/audio/transcriptions", slot: "s".repeat(64), requestId: `"${name}`, seconds: 1 };
        const [server, hold, queue, engine] = spansOf({ ...ended, code: 502, failure, record }, ids, wallMs);
        assert.equal(valueOf(server, "berth.request_id"), `"${name}`);
        assert.equal(valueOf(engine, "gen_ai.usage.output_tokens"), String(most));
        assert.equal(valueOf(engine, "gen_ai.request.model"), name === "" ? undefined : name);
        const [from = 0n, ...times] = [hold, queue, engine].flatMap((span) => [
          BigInt(span?.startTimeUnixNano ?? 0),
          BigInt(span?.endTimeUnixNano ?? 0),
        ]);
        for (const [nth, later] of [1_500_000n, 1_500_000n, 1_500_000n, 1_623_000n, 1_001_623_000n].entries())
          assert.ok(Math.abs(Number((times[nth] ?? 0n) - from - later)) <= 1000, `time ${nth}`);
      }
  });

  it("have a time also where the clock was never set, and after 2038", () => {
    const ids = ownTrace({}, new TraceSampler(1)).spans;
    assert.ok(ids !== undefined);
    const ended = { path: "/v1/models", slot: "s", requestId: "1", seconds: 1, code: 200, failure: undefined };
    const textAt = (endedAt: number): string => {
      const spans = new RequestSpans({ ...ended, endedAt, record: new RequestRecord() }, ids, 1000);
      const memory = Buffer.alloc(spans.mostBytes);
      return memory.toString("utf8", 0, spans.put(memory, 0));
    };
    assert.match(textAt(61_000), /"startTimeUnixNano":"60000000000","endTimeUnixNano":"61000000000"/);
    const later = /"startTimeUnixNano":"2147483647500000000","endTimeUnixNano":"2147483648500000000"/;
    assert.match(textAt(2_147_483_648_500), later);
  });

  it("name the error of a request that failed, and begin a trace of their own", async () => {
    await using receiver = await startReceiver();
    const env = { SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "1" };
    await using gateway = await startGateway({ env });
    await (await gateway.post("/v1/chat/completions", { ...chat, model: "nobody" })).text();
    await until("the receiver has the span", () => receiver.spans.length > 0);
    const [span] = receiver.spans;
    // The client is at fault: the server did not fail.
    assert.deepEqual([span?.name, span?.parentSpanId, span?.status.code], ["chat nobody", undefined, 0]);
    assert.equal(valueOf(span, "error.type"), "model.not_found");
  });

  it("have the status that OpenTelemetry wants of a server and of a client", () => {
    const statuses = (code: number, failure?: ApiError): (number | undefined)[] => {
      const record = new RequestRecord();
      record.engine = { startedAt: 9_500, ms: 400, model: "m", tokensIn: undefined, tokensOut: undefined };
      const trace = ownTrace({}, new TraceSampler(1));
      const ended = { path: "/v1/chat/completions", slot: "primary", requestId: "1", seconds: 1, code, failure };
      const spans = spansOf({ ...ended, record }, trace.spans);
      return [2, 3].map((kind) => spans.find((span) => span.kind === kind)?.status.code);
    };
    assert.deepEqual(statuses(200), [0, 0]);
    assert.deepEqual(statuses(499), [0, 0], "its client has left");
    assert.deepEqual(statuses(400, new ApiError("dispatch.rejected", { status: 400 })), [0, 2]);
    assert.deepEqual(statuses(502, new ApiError("dispatch.upstream_failed")), [2, 2]);
    assert.deepEqual(statuses(200, new ApiError("dispatch.upstream_failed")), [2, 2], "a stream that had begun");
  });

  it("name the gateway's process, the engine's address and the conventions", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine(sayHello);
    await using provider = await startProvider();
    const spec = specOf({ baseUrl: provider.baseUrl, models: [{ ref: "big", upstreamModel: "gpt-double" }] });
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      registry: { upstreams: [{ name: "acme", spec }] },
      env: { SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "1" },
    });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    await (await gateway.post("/v1/chat/completions", { ...chat, model: "big" })).text();
    await until("the receiver has the spans", () => receiver.spans.length >= 4);
    const client = (model: string): Span | undefined =>
      receiver.spans.find((span) => span.kind === 3 && valueOf(span, "gen_ai.request.model") === model);
    assert.equal(valueOf(client("primary"), "server.address"), "127.0.0.1");
    assert.equal(valueOf(client("primary"), "server.port"), String(engine.port));
    assert.ok(client("big") !== undefined);
    assert.equal(valueOf(client("big"), "server.address"), undefined, "a provider's may be a secret");
    const [text = ""] = receiver.texts;
    assert.match(text, /"service\.instance\.id","value":\{"stringValue":"gateway-\d+-[0-9a-f]{8}"\}/);
    assert.match(
      text,
      /"scope":\{"name":"berth","version":"0\.0\.0-test",.*semantic-conventions-genai\/tree\/[0-9a-f]{8}"/,
    );
  });

  it("are not made for requests without credentials, whatever their client says", async () => {
    await using receiver = await startReceiver();
    const env = { SVC_AUTH_ENABLED: "1", SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "1" };
    await using gateway = await startGateway({ env });
    const headers = { "content-type": "application/json", traceparent: sampled, authorization: "Bearer wrong" };
    assert.equal((await gateway.post("/v1/chat/completions", chat, { headers })).status, 401);
    await gateway.running.close({ drainSeconds: 0 });
    assert.deepEqual(receiver.spans, []);
  });

  it("are not made for unsampled requests, and a dead receiver delays no request", async () => {
    await using receiver = await startReceiver();
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      env: { SVC_TRACES_ENDPOINT: receiver.url, SVC_TRACES_PART: "0" },
    });
    await (await gateway.post("/v1/chat/completions", chat)).text();
    const { traceparent = "", accept } = engine.seen[0]?.headers ?? {};
    assert.match(String(traceparent), /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/);
    assert.equal(accept, "application/json");
    const headers = { "content-type": "application/json", traceparent: sampled };
    await (await gateway.post("/v1/chat/completions", chat, { headers })).text();
    await until("the sampled request is there", () => receiver.spans.length >= 2);
    assert.deepEqual([...new Set(receiver.spans.map((span) => span.traceId))], [traceId]);
    await receiver[Symbol.asyncDispose]();
    assert.equal((await gateway.post("/v1/chat/completions", chat, { headers })).status, 200);
    await until("the log says so once", () => gateway.log().includes("traces are dropped"));
  });

  it("cost nothing without a receiver: their module is not even loaded", async () => {
    const root = fileURLToPath(new URL("../../../", import.meta.url));
    const files = await importedBy("src/gateway/main.ts");
    assert.ok(files.has(`${root}src/gateway/telemetry/trace-context.ts`));
    for (const name of ["traces", "otlp-exporter", "request-spans", "gen-ai"])
      assert.ok(!files.has(`${root}src/gateway/telemetry/${name}.ts`), name);
  });
});

it("at its end the exporter sends every span that it holds, and a receiver that is gone ends that", async () => {
  const received: number[] = [];
  let isGone = false;
  const server = createServer((request, response) => {
    void textOf(request).then((body) => {
      const spans = exportSchema.parse(JSON.parse(body)).resourceSpans[0]?.scopeSpans[0]?.spans ?? [];
      received.push(spans.length);
      response.writeHead(isGone ? 503 : 200).end("{}");
    });
  });
  const port = await listen(server);
  using stack = new DisposableStack();
  stack.defer(() => void server.close());
  const failures: string[] = [];
  const opened = () =>
    new OtlpExporter({
      endpoint: `http://127.0.0.1:${port}`,
      version: "0",
      instance: "0",
      onFailing: (message) => failures.push(message),
    });
  const span = { traceId, spanId: parent, name: "chat", kind: 2, attributes: [], status: { code: 0 } } as const;
  const at = "1767225600000000000";
  const text = JSON.stringify({ ...span, startTimeUnixNano: at, endTimeUnixNano: at });
  const add = (exporter: OtlpExporter): void => {
    const four = Buffer.from(`${text},`.repeat(4));
    const spans = { count: 4, mostBytes: four.length, put: (memory: Buffer, at: number) => at + four.copy(memory, at) };
    for (let request = 0; request < 325; request += 1) exporter.add(spans);
  };
  const whole = opened();
  add(whole);
  await whole[Symbol.asyncDispose]();
  assert.deepEqual(received, [512, 512, 276]);
  isGone = true;
  const lost = opened();
  add(lost);
  await lost[Symbol.asyncDispose]();
  assert.deepEqual(received.slice(3), [512, 512]);
  assert.equal(failures.length, 1);
});

describe("a receiver that does not answer", () => {
  const one = Buffer.from(
    `${JSON.stringify({
      traceId,
      spanId: parent,
      name: "x".repeat(700),
      kind: 2,
      startTimeUnixNano: "1767225600000000000",
      endTimeUnixNano: "1767225600000000000",
      attributes: [],
      status: { code: 0 },
    })},`,
  );
  const span = { count: 1, mostBytes: one.length, put: (memory: Buffer, at: number) => at + one.copy(memory, at) };

  it("makes spans wait in few batches, of which it gets each whole, and no more wait than the limit", async () => {
    const received: number[] = [];
    const held: (() => void)[] = [];
    const server = createServer((request, response) => {
      void textOf(request).then((body) => {
        received.push(exportSchema.parse(JSON.parse(body)).resourceSpans[0]?.scopeSpans[0]?.spans.length ?? 0);
        held.push(() => void response.end("{}"));
      });
    });
    const endpoint = `http://127.0.0.1:${await listen(server)}`;
    using stack = new DisposableStack();
    stack.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    await using exporter = new OtlpExporter({
      endpoint,
      version: "0",
      instance: "0",
      everyMs: 1,
      onFailing: assert.fail,
    });
    exporter.add(span);
    await until("the first is on its way", () => received.length === 1);
    let taken = 0;
    for (; exporter.hasRoom; taken += 1) exporter.add(span);
    assert.equal(taken, 2048);
    await until("the receiver has all of them", () => {
      for (const answer of held.splice(0)) answer();
      return received.reduce((sum, count) => sum + count, 0) === 1 + taken;
    });
    assert.ok(received.length <= 7, `batches: ${received.join(", ")}`);
    assert.ok(exporter.hasRoom);
  });

  for (const [what, count] of [
    ["one span", 1],
    ["as many as may wait", 2048],
  ] as const)
    it(`gets ${what} that came meanwhile once it answers, although the time to send them has passed`, async () => {
      const received: number[] = [];
      let answer: (() => void) | undefined;
      const server = createServer((request, response) => {
        void textOf(request).then((body) => {
          received.push(exportSchema.parse(JSON.parse(body)).resourceSpans[0]?.scopeSpans[0]?.spans.length ?? 0);
          if (received.length > 1) response.end("{}");
          else answer = () => void response.end("{}");
        });
      });
      const endpoint = `http://127.0.0.1:${await listen(server)}`;
      using stack = new DisposableStack();
      stack.defer(() => {
        server.closeAllConnections();
        server.close();
      });
      const options = { endpoint, version: "0", instance: "0", everyMs: 1, onFailing: assert.fail };
      await using exporter = new OtlpExporter(options);
      exporter.add(span);
      await until("the first is on its way", () => answer !== undefined);
      for (let nth = 0; nth < count; nth += 1) exporter.add(span);
      // The exporter's timer, which is due after 1 ms, fires before this one.
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.deepEqual(received, [1]);
      answer?.();
      await until("the others have come", () => received.reduce((sum, each) => sum + each, 0) === 1 + count);
    });

  it("by its body alone is reported", async () => {
    const server = createServer((request, response) => {
      request.resume().on("end", () => response.writeHead(200).write("{"));
    });
    const endpoint = `http://127.0.0.1:${await listen(server)}`;
    using stack = new DisposableStack();
    stack.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    const failures: string[] = [];
    const exporter = new OtlpExporter({
      endpoint,
      version: "0",
      instance: "0",
      timeoutMs: 200,
      onFailing: (message) => failures.push(message),
    });
    exporter.add(span);
    await exporter[Symbol.asyncDispose]();
    assert.match(failures.join("; "), /timeout/);
  });
});
