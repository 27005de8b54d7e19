import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EngineProtocol } from "../../src/api/names.ts";
import { envelopeOf } from "../support/envelope.ts";
import { startGateway, type SlotSketch, type TestGateway } from "../support/gateway.ts";
import { helloChunks, json, sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { restOf, withoutComments } from "../support/held-stream.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const quick = { gateway: { holdTimes: { firstCommentMs: 50, everyMs: 50 } } };

describe("a request for a slot that is not loaded", () => {
  for (const state of ["offline", "pulling", "starting", "warming", "unloading"] as const) {
    it(`is held while the slot is ${state}, counted as demand, and answered once it is ready`, async () => {
      await using engine = await scriptedEngine();
      await using gateway = await startGateway({ slots: { primary: { state } } });
      const answered = gateway.post("/v1/chat/completions", chat);
      await until("it is demand", () => gateway.demand("primary")?.held === 1);
      assert.equal(await gateway.metric('berth_requests_held{slot="primary"}'), 1);
      assert.ok(gateway.demand("primary")?.lastRequestAt !== undefined);
      await gateway.publish("primary", { port: engine.port });
      const response = await answered;
      assert.equal(response.status, 200);
      assert.equal(engine.seen.length, 1);
      await until("nothing is held", () => gateway.demand("primary")?.held === 0);
    });
  }

  it("is refused with the slot's state when the time to hold is over", async () => {
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" } },
      env: { SVC_HOLD_SECONDS: "1" },
    });
    const response = await gateway.post("/v1/chat/completions", chat);
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("retry-after"), "2");
    const { error } = await envelopeOf(response);
    assert.equal(error.code, "slot.not_ready");
    assert.deepEqual(error.details, { slot: "primary", state: "starting", reason: "Starting" });
    const waited = (await gateway.metric('berth_request_wait_seconds_sum{slot="primary"}')) ?? 0;
    assert.ok(waited >= 0.9, `${waited} s of one second that it waited`);
    await until("nothing is held", () => gateway.demand("primary")?.held === 0);
  });

  it("is refused at once with SVC_HOLD_SECONDS=0, and counts as demand all the same", async () => {
    await using gateway = await startGateway({ slots: { primary: {} }, env: { SVC_HOLD_SECONDS: "0" } });
    const response = await gateway.post("/v1/chat/completions", { ...chat, stream: true });
    assert.equal(response.status, 503);
    assert.equal((await envelopeOf(response)).error.code, "slot.not_ready");
    await until("it is demand", () => gateway.demand("primary")?.lastRequestAt !== undefined);
  });

  it("is refused before anything is loaded where every engine would refuse it", async () => {
    const of = (protocols: readonly EngineProtocol[]): SlotSketch => ({
      spec: { model: { default: "test-model" } },
      status: {
        protocols: [...protocols],
        capabilities: ["chat", "completions", "embeddings", "rerank", "speech", "transcription", "image"],
      },
    });
    const spoken = ["messages", "count_tokens", "input_tokens", "responses"] as const;
    await using gateway = await startGateway({
      slots: { cold: of([]), native: of(spoken), counting: of(["input_tokens"]), img: of([]), tts: of([]) },
      env: { SVC_HOLD_SECONDS: "1" },
    });
    const form = (parts: Readonly<Record<string, string | Blob>>): FormData => {
      const data = new FormData();
      for (const [name, value] of Object.entries(parts))
        if (typeof value === "string") data.append(name, value);
        else data.append(name, value, "a.wav");
      return data;
    };
    const noMessages = [{}, { messages: [] }, { messages: ["x"] }, { messages: null }, { messages: [chat, {}] }];
    const someMessage = [{ role: "user", content: "hi" }];
    const cases: readonly (readonly [path: string, model: string, bodies: readonly object[]])[] = [
      ["/v1/chat/completions", "cold", [...noMessages, { messages: [...someMessage, "x"] }]],
      ["/v1/chat/completions/input_tokens", "counting", noMessages],
      ["/v1/messages", "native", noMessages],
      ["/v1/messages", "cold", [...noMessages, { max_tokens: 1 }]],
      ["/v1/messages/count_tokens", "native", noMessages],
      ["/v1/completions", "cold", [{}, { prompt: null }, { prompt: [] }, { prompt: [true] }, { prompt: ["a", null] }]],
      ["/v1/embeddings", "cold", [{}, { input: [] }, { input: [[]] }, { input: [1.5] }]],
      ["/v1/rerank", "cold", [{}, { query: "q" }, { query: "q", documents: [] }, { query: "q", documents: [1] }]],
      ["/v1/score", "cold", [{}, { text_1: "q" }, { text_1: "q", text_2: [] }]],
      ["/v2/rerank", "cold", [{}, { query: "q", documents: [] }]],
      ["/v1/responses", "cold", [{}, { input: [] }, { input: ["x"] }]],
      ["/v1/responses", "native", [{}, { input: [] }, { input: ["x"] }]],
      ["/v1/responses/input_tokens", "native", [{}, { input: [] }, { input: ["x"] }]],
      ["/v1/responses/input_tokens", "counting", [{}, { input: [] }, { input: ["x"] }]],
      ["/v1/images/generations", "img", [{}, { prompt: "" }, { prompt: ["x"] }]],
      ["/v1/audio/speech", "tts", [{}, { input: "" }, { input: "hi" }, { input: ["hi"], voice: "x" }]],
      ["/v1/audio/transcriptions", "cold", [form({ model: "cold" }), form({ model: "cold", file: new Blob([]) })]],
    ];
    const asked = cases.flatMap(([path, model, bodies]) =>
      bodies.map(async (body) => {
        const isForm = body instanceof FormData;
        const answer = await gateway.post(
          path,
          "",
          isForm ? { body, headers: {} } : { body: JSON.stringify({ model, ...body }) },
        );
        const what = `${path} ${model} ${isForm ? "form" : JSON.stringify(body)}: ${await answer.clone().text()}`;
        assert.equal(answer.status, 400, what);
        assert.match(await answer.text(), /messages|prompt|input|query|documents|file|voice|text_|max_tokens/, what);
      }),
    );
    await Promise.all(asked);
    for (const slot of ["cold", "native", "counting", "img", "tts"]) {
      const { held = 0, lastRequestAt } = gateway.demand(slot) ?? {};
      assert.deepEqual([held, lastRequestAt], [0, undefined], slot);
    }
  });

  it("gives up its place when its client leaves", async () => {
    await using gateway = await startGateway({ slots: { primary: {} } });
    const leaving = new AbortController();
    const answered = gateway.post("/v1/chat/completions", chat, { signal: leaving.signal });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    leaving.abort();
    await assert.rejects(answered);
    await until("it is forgotten", () => gateway.demand("primary")?.held === 0);
    assert.equal(
      await gateway.metric('berth_requests_total{route="/v1/chat/completions",slot="primary",code="499"}'),
      1,
    );
  });

  it("is refused at once, without a retry, where only a person would load the slot", async () => {
    const now = new Date().toISOString();
    const condition = {
      type: "Available",
      status: "False",
      reason: "Unloaded",
      message: "unloaded by request",
      observedGeneration: 1,
      lastTransitionTime: now,
    } as const;
    await using gateway = await startGateway({ slots: { primary: { status: { conditions: [condition] } } } });
    const response = await gateway.post("/v1/chat/completions", chat);
    assert.equal(response.status, 503);
    assert.equal(response.headers.get("x-should-retry"), "false");
    assert.equal((await envelopeOf(response)).error.code, "slot.not_ready");
  });

  it("is refused with slot.disabled where the slot is disabled", async () => {
    await using gateway = await startGateway({ slots: { primary: { spec: { enabled: false } } } });
    const response = await gateway.post("/v1/chat/completions", chat);
    assert.deepEqual([response.status, response.headers.get("x-should-retry")], [503, "false"]);
    assert.equal((await envelopeOf(response)).error.code, "slot.disabled");
  });
});

describe("a request for a slot in error", () => {
  const inSeconds = (seconds: number): string => new Date(Date.now() + seconds * 1000).toISOString();
  const lastError = { reason: "Exited", message: "/root/engine exited with code 1", time: new Date().toISOString() };

  it("waits through an error that is tried again soon", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { state: "error", status: { failures: 1, lastError, nextRetryAt: inSeconds(5) } } },
    });
    const answered = gateway.post("/v1/chat/completions", chat);
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port });
    assert.equal((await answered).status, 200);
  });

  const hopeless = [
    ["whose next try is far away", { failures: 1, inSeconds: 3600 }, /^(3[45]\d\d|3600)$/, null],
    ["after the third failure in a row", { failures: 3, inSeconds: 5 }, /^[1-5]$/, null],
    ["that needs a person", { failures: 1, inSeconds: undefined }, /^$/, "false"],
  ] as const;
  for (const [what, { failures, inSeconds: next }, retryAfter, shouldRetry] of hopeless) {
    it(`fails at once where the slot is in one ${what}`, async () => {
      const status = { failures, ...(next === undefined ? {} : { nextRetryAt: inSeconds(next) }) };
      await using gateway = await startGateway({
        slots: { primary: { state: "error", status: { lastError, ...status } } },
      });
      const response = await gateway.post("/v1/chat/completions", chat);
      assert.equal(response.status, 503);
      assert.match(response.headers.get("retry-after") ?? "", retryAfter);
      assert.equal(response.headers.get("x-should-retry"), shouldRetry);
      const { error } = await envelopeOf(response);
      assert.equal(error.code, "slot.failed");
      // Paths and the engine's own words stay here.
      assert.equal(error.message, "slot primary has failed: its engine exited");
      assert.equal(error.details?.["message"], "its engine exited");
    });
  }

  it("says that it has failed where its manifest was never valid, not that it is disabled", async () => {
    const message = "/etc/berth/slots/primary.yaml:1: wrong";
    const stalled = { type: "Stalled", status: "True", reason: "InvalidSpec", message, observedGeneration: 1 } as const;
    const conditions = [{ ...stalled, lastTransitionTime: lastError.time }];
    await using gateway = await startGateway({
      slots: { primary: { state: "error", spec: { enabled: false }, status: { conditions, lastError } } },
    });
    const response = await gateway.post("/v1/chat/completions", chat);
    assert.deepEqual([response.status, response.headers.get("x-should-retry")], [503, "false"]);
    const { error } = await envelopeOf(response);
    assert.deepEqual([error.code, error.details?.["reason"]], ["slot.failed", "InvalidSpec"]);
    assert.doesNotMatch(JSON.stringify(error), /etc/);
  });

  it("fails when the slot it waits for fails for good", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "starting" } } });
    const answered = gateway.post("/v1/chat/completions", chat);
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { state: "error", status: { failures: 3, lastError, nextRetryAt: inSeconds(5) } });
    assert.equal((await envelopeOf(await answered)).error.code, "slot.failed");
  });
});

describe("a request for a slot's second process, which fails beside the first", () => {
  const rerank = { model: "embed", query: "q", documents: ["a"] };
  const lastError = { reason: "Exited", message: "/root/engine: boom", time: new Date().toISOString() };
  const site = async (failures: number, nextSeconds: number | undefined, stalled?: string): Promise<TestGateway> => {
    const nextRetryAt = nextSeconds === undefined ? undefined : new Date(Date.now() + nextSeconds * 1000).toISOString();
    const condition = { type: "Stalled", status: "True", message: "x", observedGeneration: 1 } as const;
    const conditions =
      stalled === undefined ? [] : [{ ...condition, reason: stalled, lastTransitionTime: lastError.time }];
    const status = { failures, lastError, conditions, ...(nextRetryAt === undefined ? {} : { nextRetryAt }) };
    return await startGateway({
      slots: { embed: { port: 9, spec: { model: { default: "a", rerank: "b" } }, status } },
    });
  };

  const hopeless = [
    ["its next try is far away", 1, 3600, undefined, /^(3[45]\d\d|3600)$/],
    ["it failed three times in a row", 3, 5, undefined, /^[1-5]$/],
    ["it is tried once more after three failures", 3, undefined, undefined, /^2$/],
    ["only a person can mend it", 1, undefined, "Exited", /^$/],
  ] as const;
  for (const [what, failures, next, stalled, retryAfter] of hopeless) {
    it(`is refused at once where ${what}`, async () => {
      await using gateway = await site(failures, next, stalled);
      const response = await gateway.post("/v1/rerank", rerank);
      assert.equal(response.status, 503);
      assert.match(response.headers.get("retry-after") ?? "", retryAfter);
      const { error } = await envelopeOf(response);
      assert.equal(error.code, "slot.not_ready");
      assert.deepEqual([error.details?.["role"], error.details?.["reason"]], ["rerank", "Exited"]);
      assert.doesNotMatch(JSON.stringify(error), /root|boom/);
    });
  }

  for (const [what, failures, next, stalled] of [
    ["its next try is near", 1, 5, undefined],
    ["it only starts", 0, undefined, undefined],
    ["it only starts, though the manifest was broken by an edit", 1, undefined, "InvalidSpec"],
  ] as const) {
    it(`waits where ${what}`, async () => {
      await using engine = await scriptedEngine((response) => json(response, { results: [] }));
      await using gateway = await site(failures, next, stalled);
      const answered = gateway.post("/v1/rerank", rerank);
      await until("it is held", () => gateway.demand("embed")?.held === 1);
      await gateway.publish("embed", { port: 9, rerankPort: engine.port });
      assert.equal((await answered).status, 200);
    });
  }
});

describe("a stream from a slot that is not loaded", () => {
  const stream = { ...chat, stream: true };

  it("begins with comments that tell the state, and carries the engine's stream once that begins", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { state: "pulling", status: { progress: { bytesDone: 41, bytesTotal: 100 } } } },
      ...quick,
    });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader?.read();
    assert.match(String(first?.value), /^: waiting slot=primary state=pulling progress=41% position=1 waited=\d+s\n\n/);
    await gateway.publish("primary", { port: engine.port });
    assert.equal(withoutComments(await restOf(reader)), helloChunks.join("").replaceAll("engine-model", "primary"));
  });

  it("ends with an event that carries the error when the slot fails after all", async () => {
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" } },
      env: { SVC_HOLD_SECONDS: "1" },
      ...quick,
    });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.equal(response.status, 200);
    const text = await response.text();
    const last = text.split("\n\n").at(-2) ?? "";
    assert.match(last, /^data: \{"error":\{"code":"slot\.not_ready"/);
    assert.doesNotMatch(text, /\[DONE\]/);
  });

  it("keeps its real status when it fails before the silence is over", async () => {
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" } },
      env: { SVC_HOLD_SECONDS: "1" },
    });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.equal(response.status, 503);
  });

  it("ends a held client's stream with an error when the engine's answer is no stream", async () => {
    await using engine = await scriptedEngine((response) => json(response, { choices: [] }));
    await using gateway = await startGateway({ slots: { primary: {} }, ...quick });
    const response = await gateway.post("/v1/chat/completions", stream);
    await gateway.publish("primary", { port: engine.port });
    assert.match(await response.text(), /data: \{"error":\{"code":"dispatch\.upstream_failed"/);
  });

  it("shares one call to the engine among identical requests, each of which gets the whole answer and its own id", async () => {
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    await using engine = await scriptedEngine(async (response, seen) => {
      await released;
      sayHello(response, seen);
    });
    await using gateway = await startGateway({ slots: { primary: {} } });
    const answers = Array.from({ length: 20 }, () => gateway.post("/v1/chat/completions", stream));
    const other = gateway.post("/v1/chat/completions", { ...stream, seed: 1 });
    await until("two are held", () => gateway.demand("primary")?.held === 2);
    await until("all have arrived", async () => (await gateway.metric("berth_shared_stream_readers")) === 21);
    assert.equal(await gateway.metric('berth_requests_held{slot="primary"}'), 21);
    await gateway.publish("primary", { port: engine.port });
    release();
    const responses = await Promise.all([...answers, other]);
    const texts = await Promise.all(responses.map((response) => response.text()));
    for (const text of texts) assert.equal(text, helloChunks.join("").replaceAll("engine-model", "primary"));
    assert.equal(new Set(responses.map(({ headers }) => headers.get("x-request-id"))).size, 21);
    assert.equal(engine.seen.length, 2);
    const counted = ["request_wait_seconds_count", "requests_held"].map((name) => `berth_${name}{slot="primary"}`);
    assert.deepEqual(await Promise.all(counted.map((name) => gateway.metric(name))), [21, 0]);
    const firstBytes = 'berth_time_to_first_byte_seconds_count{route="/v1/chat/completions",slot="primary"}';
    assert.equal(await gateway.metric(firstBytes), 21);
    assert.equal(await gateway.metric("berth_shared_stream_readers"), 0);
  });

  it("continues for the other clients when one leaves, and ends when the last leaves", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(helloChunks[0]);
    });
    await using gateway = await startGateway({ slots: { primary: {} } });
    const [first, second] = [new AbortController(), new AbortController()];
    const answers = [first, second].map(({ signal }) => gateway.post("/v1/chat/completions", stream, { signal }));
    await until("both have arrived", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
    await gateway.publish("primary", { port: engine.port });
    const [, stays] = await Promise.all(answers);
    first.abort();
    await until("one has left", async () => (await gateway.metric("berth_shared_stream_readers")) === 1);
    assert.equal(engine.seen[0]?.isAborted, false);
    const reader = stays?.body?.getReader();
    await reader?.read();
    second.abort();
    await until("the engine is told", () => engine.seen[0]?.isAborted === true);
    assert.equal(engine.seen.length, 1);
  });

  it("is never shared on a loaded slot", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await Promise.all(
      Array.from({ length: 4 }, async () => await (await gateway.post("/v1/chat/completions", stream)).text()),
    );
    assert.equal(engine.seen.length, 4);
  });
});
