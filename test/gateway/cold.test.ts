import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { EngineProtocol } from "../../src/api/names.ts";
import { envelopeOf } from "../support/envelope.ts";
import { modelRecord, type SlotSketch, startGateway } from "../support/gateway.ts";
import { restOf, withoutComments } from "../support/held-stream.ts";
import { helloChunks, json, sayHello, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";

const messages = [{ role: "user", content: "hi" }];
const chat = { model: "primary", messages };
const stream = { ...chat, stream: true };
const quick = { gateway: { commentTimes: { firstMs: 50, everyMs: 50 } } };
/** Every capability, so that nothing is refused for want of one. */
const capabilities = ["chat", "completions", "embeddings", "rerank", "speech", "transcription", "image"] as const;

/** The body of a transcription. */
function form(file?: Blob): FormData {
  const data = new FormData();
  data.append("model", "cold");
  if (file !== undefined) data.append("file", file, "a.wav");
  return data;
}

describe("a request for a slot that is not loaded", () => {
  it("is held, counted as demand, and answered once the slot is ready", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { state: "starting" } } });
    const answered = gateway.post("/v1/chat/completions", chat);
    await until("it is demand", () => gateway.demand("primary")?.held === 1);
    assert.equal(await gateway.metric('berth_requests_held{slot="primary"}'), 1);
    assert.ok(gateway.demand("primary")?.lastRequestAt !== undefined);
    await gateway.publish("primary", { port: engine.port });
    assert.equal((await answered).status, 200);
    assert.equal(engine.seen.length, 1);
    await until("nothing is held", () => gateway.demand("primary")?.held === 0);
  });

  it("is refused with the slot's state when the time to hold is over, in its stream where that has begun", async () => {
    const slots = { primary: { state: "starting" } } as const;
    await using gateway = await startGateway({ slots, env: { SVC_HOLD_SECONDS: "1" }, ...quick });
    const [response, begun] = await Promise.all(
      [chat, stream].map((body) => gateway.post("/v1/chat/completions", body)),
    );
    assert.deepEqual([response?.status, response?.headers.get("retry-after"), begun?.status], [503, "2", 200]);
    const { error } = await envelopeOf(response ?? assert.fail());
    assert.equal(error.code, "slot.not_ready");
    assert.deepEqual(error.details, { slot: "primary", state: "starting", reason: "Starting" });
    const text = (await begun?.text()) ?? "";
    assert.match(text.split("\n\n").at(-2) ?? "", /^data: \{"error":\{"code":"slot\.not_ready"/);
    assert.doesNotMatch(text, /\[DONE\]/);
    const failed = 'berth_request_failures_total{slot="primary",error="slot.not_ready",answer="none",reason="other"}';
    await until("both are counted by their error", async () => (await gateway.metric(failed)) === 2);
    const answered = 'berth_requests_total{route="/v1/chat/completions",slot="primary",code="200"}';
    assert.equal(await gateway.metric(answered), 1, "the HTTP status of a stream tells nothing");
    const waited = (await gateway.metric('berth_request_wait_seconds_sum{slot="primary"}')) ?? 0;
    assert.ok(waited >= 1.8, `${waited} s of two seconds that they waited`);
    await until("nothing is held", () => gateway.demand("primary")?.held === 0);
  });

  it("is refused at once with SVC_HOLD_SECONDS=0, and counts as demand all the same", async () => {
    await using gateway = await startGateway({ slots: { primary: {} }, env: { SVC_HOLD_SECONDS: "0" } });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.equal(response.status, 503);
    assert.equal((await envelopeOf(response)).error.code, "slot.not_ready");
    await until("it is demand", () => gateway.demand("primary")?.lastRequestAt !== undefined);
  });

  it("is refused at once, without the operator's words, where the slot has failed", async () => {
    const lastError = { reason: "Exited", message: "/root/engine exited with code 1", time: new Date().toISOString() };
    const status = { failures: 3, lastError, nextRetryAt: new Date(Date.now() + 5000).toISOString() };
    await using gateway = await startGateway({ slots: { primary: { state: "error", status } } });
    const response = await gateway.post("/v1/chat/completions", chat);
    assert.equal(response.status, 503);
    assert.match(response.headers.get("retry-after") ?? "", /^[1-5]$/);
    const { error } = await envelopeOf(response);
    assert.deepEqual([error.code, error.message], ["slot.failed", "slot primary has failed: its engine exited"]);
    assert.doesNotMatch(JSON.stringify(error), /root/);
  });

  it("is refused with its wrong field, before anything is loaded, where every engine would refuse it", async () => {
    const of = (protocols: readonly EngineProtocol[]): SlotSketch => ({
      spec: { model: { default: "test-model" } },
      status: { protocols: [...protocols], capabilities: [...capabilities] },
    });
    const spoken = ["messages", "count_tokens", "input_tokens", "responses"] as const;
    await using gateway = await startGateway({
      slots: { cold: of([]), native: of(spoken), counting: of(["input_tokens"]), img: of([]), tts: of([]) },
    });
    const noMessages = [{}, ...[[], "x", {}, ["x"], null, [chat, {}]].map((each) => ({ messages: each }))];
    const noInput = [{}, ...[5, [], ["x"]].map((input) => ({ input }))];
    const cases: readonly (readonly [path: string, model: string, field: string, bodies: readonly object[]])[] = [
      ["/v1/chat/completions", "cold", "messages", [...noMessages, { messages: [...messages, "x"] }]],
      ["/v1/chat/completions", "cold", "stream", ["x", 1].map((each) => ({ messages, stream: each }))],
      ["/v1/chat/completions/input_tokens", "counting", "messages", noMessages],
      ["/v1/messages", "native", "messages", noMessages],
      ["/v1/messages", "cold", "messages|max_tokens", [...noMessages, { max_tokens: 1 }]],
      ["/v1/messages/count_tokens", "native", "messages", noMessages],
      ["/v1/completions", "cold", "prompt", [{}, ...[5, null, [], [true], ["a", null]].map((prompt) => ({ prompt }))]],
      ["/v1/embeddings", "cold", "input", [{}, ...[null, [], [[]], [1.5]].map((input) => ({ input }))]],
      ["/v1/rerank", "cold", "query|documents", [{}, { query: "q" }, { query: "q", documents: [] }]],
      ["/v1/rerank", "cold", "documents", [{ query: "q", documents: [1] }]],
      ["/v1/score", "cold", "text_[12]", [{}, { text_1: "q" }, { text_1: "q", text_2: [] }]],
      ["/v2/rerank", "cold", "query|documents", [{}, { query: "q", documents: [] }]],
      ...["cold", "native"].map((model) => ["/v1/responses", model, "input", noInput] as const),
      ...["native", "counting"].map((model) => ["/v1/responses/input_tokens", model, "input", noInput] as const),
      ["/v1/images/generations", "img", "prompt", [{}, { prompt: "" }, { prompt: ["x"] }]],
      ["/v1/audio/speech", "tts", "input|voice", [{}, { input: "" }, { input: "hi" }, { input: ["hi"], voice: "x" }]],
      ["/v1/audio/transcriptions", "cold", "file", [form(), form(new Blob([]))]],
    ];
    await Promise.all(
      cases.flatMap(([path, model, field, bodies]) =>
        bodies.map(async (body) => {
          const sent = JSON.stringify({ model, ...body });
          const answer = await gateway.post(path, sent, body instanceof FormData ? { body, headers: {} } : {});
          const text = await answer.text();
          assert.equal(answer.status, 400, `${path} ${sent}: ${text}`);
          // Each protocol has errors of its own form.
          assert.match(text, new RegExp(`"message":"[^"]*(${field})`), `${path} ${sent}`);
        }),
      ),
    );
    for (const slot of ["cold", "native", "counting", "img", "tts"]) {
      const { held = 0, lastRequestAt } = gateway.demand(slot) ?? {};
      assert.deepEqual([held, lastRequestAt], [0, undefined], slot);
    }
  });

  it("gives up its place and its bytes when its client leaves", async () => {
    await using gateway = await startGateway({ slots: { primary: {} }, env: { SVC_BUFFER_LIMIT: "4096" } });
    // Two of them have no room.
    const large = { model: "primary", messages: [{ role: "user", content: "x".repeat(3000) }] };
    for (const turn of ["first", "second"]) {
      const leaving = new AbortController();
      const answered = gateway.post("/v1/chat/completions", large, { signal: leaving.signal });
      await until(`the ${turn} is held`, () => gateway.demand("primary")?.held === 1);
      assert.equal((await gateway.post("/v1/chat/completions", large)).status, 503);
      leaving.abort();
      await assert.rejects(answered);
      await until("it is forgotten", () => gateway.demand("primary")?.held === 0);
    }
    const left = 'berth_requests_total{route="/v1/chat/completions",slot="primary",code="499"}';
    assert.equal(await gateway.metric(left), 2);
    assert.equal(await gateway.metric('berth_request_wait_seconds_count{slot="primary"}'), 2, "they have waited too");
  });
});

describe("a stream from a slot that is not loaded", () => {
  it("begins with comments that tell the state, and carries the engine's stream once that begins", async () => {
    await using engine = await scriptedEngine();
    const status = { progress: { bytesDone: 41, bytesTotal: 100 } };
    await using gateway = await startGateway({ slots: { primary: { state: "pulling", status } }, ...quick });
    const response = await gateway.post("/v1/chat/completions", stream);
    assert.deepEqual([response.status, response.headers.get("content-type")], [200, "text/event-stream"]);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader?.read();
    assert.match(String(first?.value), /^: waiting slot=primary state=pulling progress=41% position=1 waited=\d+s\n\n/);
    await gateway.publish("primary", { port: engine.port });
    assert.equal(withoutComments(await restOf(reader)), helloChunks.join("").replaceAll("engine-model", "primary"));
  });

  it("tells of no ready slot while it is unknown whether the published engine is still there", async () => {
    await using engine = await scriptedEngine();
    const elsewhere = { bootId: "another", heartbeat: "2020-01-01T00:00:00.000Z" };
    const slots = { primary: { state: "ready", port: engine.port } } as const;
    await using gateway = await startGateway({ slots, operator: elsewhere, ...quick });
    const response = await gateway.post("/v1/chat/completions", stream);
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    const first = await reader?.read();
    assert.match(String(first?.value), /^: waiting slot=primary state=offline position=1 waited=\d+s\n\n/);
    await gateway.publishOperator(elsewhere);
    assert.equal(withoutComments(await restOf(reader)), helloChunks.join("").replaceAll("engine-model", "primary"));
  });

  it("ends a held client's stream with an error when the engine's answer is no stream", async () => {
    await using engine = await scriptedEngine((response) => json(response, { choices: [] }));
    await using gateway = await startGateway({ slots: { primary: {} }, ...quick });
    const response = await gateway.post("/v1/chat/completions", stream);
    await gateway.publish("primary", { port: engine.port });
    assert.match(await response.text(), /data: \{"error":\{"code":"dispatch\.upstream_failed"/);
  });

  it("shares one call to the engine among identical requests, each of which gets the whole answer and its own id", async () => {
    const released = Promise.withResolvers<void>();
    await using engine = await scriptedEngine(async (response, seen) => {
      await released.promise;
      sayHello(response, seen);
    });
    await using gateway = await startGateway({ slots: { primary: {} } });
    const bodies = [stream, stream, stream, stream, { ...stream, seed: 1 }];
    const answers = bodies.map((body) => gateway.post("/v1/chat/completions", body));
    await until("two are held", () => gateway.demand("primary")?.held === 2);
    await until("all have arrived", async () => (await gateway.metric("berth_shared_stream_readers")) === 5);
    assert.equal(await gateway.metric('berth_requests_held{slot="primary"}'), 5);
    await gateway.publish("primary", { port: engine.port });
    released.resolve();
    const responses = await Promise.all(answers);
    const texts = await Promise.all(responses.map((response) => response.text()));
    for (const text of texts) assert.equal(text, helloChunks.join("").replaceAll("engine-model", "primary"));
    assert.equal(new Set(responses.map(({ headers }) => headers.get("x-request-id"))).size, 5);
    assert.equal(engine.seen.length, 2);
    const firstBytes = 'berth_time_to_first_byte_seconds_count{route="/v1/chat/completions",slot="primary"}';
    const counted = ["request_wait_seconds_count", "requests_held"].map((name) => `berth_${name}{slot="primary"}`);
    const lines = [...counted, firstBytes, "berth_shared_stream_readers"];
    assert.deepEqual(await Promise.all(lines.map((line) => gateway.metric(line))), [5, 0, 5, 0]);
  });
});

const chatWith = (model: string): object => ({ model, messages: [{ role: "user", content: "hi" }] });
const holding = (ref: string, sketch: SlotSketch): SlotSketch => ({
  ...sketch,
  status: { model: { ref, origin: "swap", served: `engine-${ref}` }, ...sketch.status },
});

describe("a request that waited for a slot which has changed meanwhile", () => {
  it("goes to the slot's present model, under the name that its engine knows, where it names the slot", async () => {
    await using engine = await scriptedEngine((response) => json(response, { model: "engine-new", choices: [] }));
    await using gateway = await startGateway({ slots: { primary: holding("old", { state: "unloading" }) } });
    const answered = gateway.post("/v1/chat/completions", chatWith("primary"));
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", holding("new", { port: engine.port }));
    assert.deepEqual(await (await answered).json(), { model: "primary", choices: [] });
    assert.match(engine.seen[0]?.body ?? "", /"model":"engine-new"/);
  });

  it("is never for another model where it names the model that it held, also as a stream that others share", async () => {
    await using engine = await scriptedEngine();
    const spec = { concurrency: { max: 1 } };
    await using gateway = await startGateway({
      slots: { primary: holding("old", { state: "unloading", spec }) },
      registry: { models: [modelRecord("old")] },
    });
    const asked = ["old", "primary:old"].flatMap((model) =>
      [false, false, true, true].map((stream) => gateway.post("/v1/chat/completions", { ...chatWith(model), stream })),
    );
    const metric = (name: string): Promise<number | undefined> =>
      gateway.metric(`berth_requests_${name}{slot="primary"}`);
    await until("all are held", async () => (await metric("held")) === asked.length);
    await gateway.publish("primary", holding("new", { port: engine.port, spec }));
    for (const answered of asked) {
      const response = await answered;
      assert.equal(response.status, 404);
      assert.equal((await envelopeOf(response)).error.code, "model.not_loaded");
    }
    assert.equal(engine.seen.length, 0);
    // The places that they were given are free again.
    assert.equal((await gateway.post("/v1/chat/completions", chatWith("primary"))).status, 200);
    assert.deepEqual(await Promise.all(["held", "queued", "in_flight"].map(metric)), [0, 0, 0]);
  });

  it("is refused where the slot no longer has the capability", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: {} } });
    const answered = gateway.post("/v1/embeddings", { model: "primary", input: "x" });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port, status: { capabilities: ["chat"] } });
    assert.equal((await envelopeOf(await answered)).error.code, "dispatch.capability_mismatch");
    assert.equal(engine.seen.length, 0);
  });

  it("is translated where the probed engine lacks a protocol that its kind may have", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { status: { protocols: ["messages"] } } } });
    const answered = gateway.post("/v1/messages", { ...chatWith("primary"), max_tokens: 1 });
    await until("it is held", () => gateway.demand("primary")?.held === 1);
    await gateway.publish("primary", { port: engine.port, status: { protocols: [] } });
    assert.equal((await answered).status, 200);
    assert.equal(engine.seen[0]?.path, "/v1/chat/completions");
  });
});
