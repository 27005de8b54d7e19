import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { chunk, helloChunks, json, sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { askPipelined } from "../../support/pipelined.ts";
import { until } from "../../support/until.ts";

const messages = [{ role: "user", content: "hi" }];
const stream = { model: "primary", messages, stream: true };
const tokens = async (gateway: TestGateway): Promise<(number | undefined)[]> => [
  await gateway.metric('berth_tokens_total{slot="primary",direction="in"}'),
  await gateway.metric('berth_tokens_total{slot="primary",direction="out"}'),
];
const first = 'berth_time_to_first_token_seconds_count{route="/v1/chat/completions",slot="primary",start="warm"}';
const between = 'berth_time_between_tokens_seconds_count{slot="primary"}';

describe("tokens of a slot", () => {
  it("are the engine's count of a whole answer", async () => {
    await using engine = await scriptedEngine((response) =>
      json(response, { model: "engine-model", usage: { prompt_tokens: 12, completion_tokens: 30, total_tokens: 42 } }),
    );
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await (await gateway.post("/v1/chat/completions", { model: "primary", messages })).text();
    await until("they are counted", async () => (await tokens(gateway)).join() === "12,30");
    assert.equal(await gateway.metric(first), undefined);
  });

  it("are the engine's count at the end of a stream, or its events where it counts nothing", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await until("they are counted", async () => (await tokens(gateway)).join() === "0,2");
    assert.equal(await gateway.metric(first), 1);
    assert.equal(await gateway.metric(between), 1);
    const usage = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 9 } })}\n\n`;
    engine.answer((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end([...helloChunks.slice(0, -1), usage, "data: [DONE]\n\n"].join(""));
    });
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await until("they are counted", async () => (await tokens(gateway)).join() === "5,11");
    const timings = JSON.parse(chunk({}, "stop").slice(6));
    timings.timings = { cache_n: 3, prompt_n: 4, predicted_n: 8 };
    engine.answer((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end([...helloChunks.slice(0, -2), `data: ${JSON.stringify(timings)}\n\ndata: [DONE]\n\n`].join(""));
    });
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await until("they are counted", async () => (await tokens(gateway)).join() === "12,19");
  });

  it("are not read from the model's own text", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const said = chunk({ content: '"usage": {"prompt_tokens": 1000000, "completion_tokens": 1000000}' });
      response.end([chunk({ role: "assistant", content: "" }), said, chunk({}, "stop"), "data: [DONE]\n\n"].join(""));
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await until("they are counted", async () => (await tokens(gateway)).join() === "0,1");
  });
});

describe("a wait for a slot", () => {
  it("counts as held while the slot was not loaded, and is in the access log", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { state: "starting" } } });
    const streams = [gateway.post("/v1/chat/completions", stream), gateway.post("/v1/chat/completions", stream)];
    await until("both are held", async () => (await gateway.metric('berth_requests_held{slot="primary"}')) === 2);
    await gateway.publish("primary", { port: engine.port });
    for (const answered of streams) await (await answered).text();
    assert.equal(await gateway.metric('berth_request_hold_seconds_count{slot="primary"}'), 2);
    assert.equal(await gateway.metric('berth_shared_stream_joins_total{slot="primary"}'), 1);
    await until("both are logged", () => gateway.log().split('"heldMs"').length === 3);
    const line =
      gateway
        .log()
        .split("\n")
        .find((each) => each.includes("heldMs")) ?? "";
    const fields: unknown = JSON.parse(line);
    assert.equal(
      // A slow machine may let it wait a millisecond in the queue of the loaded slot, too.
      Object.keys(Object(fields))
        .slice(3)
        .filter((field) => field !== "queuedMs")
        .join(" "),
      "requestId slot status ms asked stream heldMs firstTokenMs resolved engineMs tokensOut msg",
    );
  });
});

it("ten thousand unknown models make no series", async () => {
  await using gateway = await startGateway();
  const lines = async (): Promise<number> =>
    (await (await fetch(`${gateway.url}/metrics`)).text()).match(/^berth_/gm)?.length ?? 0;
  await (await gateway.post("/v1/chat/completions", { model: "unknown", messages })).text();
  const counted = 'berth_requests_total{route="/v1/chat/completions",slot="none",code="404"}';
  await until("it is counted", async () => (await gateway.metric(counted)) === 1);
  const before = await lines();
  using _requests = askPipelined(
    gateway.running.port,
    Array.from({ length: 10_000 }, (_, nth) => `unknown-${nth}`),
  );
  await until("all are counted", async () => (await gateway.metric(counted)) === 10_001);
  assert.equal(await lines(), before);
});
