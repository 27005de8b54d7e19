import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { chunk, helloChunks, json, sayHello, scriptedEngine, type Script } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";
import { startProvider } from "../../doubles/provider.ts";
import { specOf } from "../providers/fixture.ts";

const messages = [{ role: "user", content: "hi" }];
const stream = { model: "primary", messages, stream: true };
const tokens = 'berth_tokens_total{slot="primary",direction=';

/** Until so many tokens of prompts and answers are counted. */
async function counted(gateway: TestGateway, tokensIn: number, tokensOut: number): Promise<void> {
  await until(`${tokensIn} and ${tokensOut} are counted`, async () => {
    const found = [await gateway.metric(`${tokens}"in"}`), await gateway.metric(`${tokens}"out"}`)];
    return found.join() === [tokensIn, tokensOut].join();
  });
}

/** Answers with these events of a stream, each by itself as engines send them. */
const streaming =
  (...events: readonly string[]): Script =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of events) response.write(event);
    response.end();
  };

/** What an engine has counted, at the end of a stream. */
const usageOf = (prompt: number, completion: number): string =>
  `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: prompt, completion_tokens: completion } })}\n\n`;
const done = "data: [DONE]\n\n";
const first = 'berth_time_to_first_token_seconds_count{route="/v1/chat/completions",slot="primary",start="warm"}';
const between = 'berth_time_between_tokens_seconds_count{slot="primary"}';

describe("tokens of a slot", () => {
  it("are the engine's count of an answer or at the end of a stream, or its events where it counts nothing", async () => {
    await using engine = await scriptedEngine(sayHello);
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await counted(gateway, 0, 2);
    assert.equal(await gateway.metric(first), 1);
    assert.equal(await gateway.metric(between), 1);
    const said = chunk({ content: '"usage": {"prompt_tokens": 1000000, "completion_tokens": 1000000}' });
    engine.answer(streaming(...helloChunks.slice(0, -1), said, usageOf(5, 9), done));
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await counted(gateway, 5, 11);
    const timings = JSON.parse(chunk({}, "stop").slice(6));
    timings.timings = { cache_n: 3, prompt_n: 4, predicted_n: 8 };
    engine.answer(streaming(...helloChunks.slice(0, -2), `data: ${JSON.stringify(timings)}\n\n`, done));
    await (await gateway.post("/v1/chat/completions", stream)).text();
    await counted(gateway, 12, 19);
    engine.answer((response) => json(response, { usage: { prompt_tokens: 12, completion_tokens: 30 } }));
    await (await gateway.post("/v1/chat/completions", { model: "primary", messages })).text();
    await counted(gateway, 24, 49);
    assert.equal(await gateway.metric(first), 3, "an answer that is no stream has no first token");
  });

  it("count while a stream is under way, and its end adds what the engine has counted beyond them", async () => {
    const open: ServerResponse[] = [];
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(helloChunks.slice(0, 3).join(""));
      open.push(response);
    });
    await using provider = await startProvider();
    const spec = specOf({ baseUrl: provider.baseUrl, models: [{ ref: "big", upstreamModel: "gpt-double" }] });
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port } },
      registry: { upstreams: [{ name: "acme", spec }] },
    });
    const end = (response: ServerResponse | undefined, completion: number): void =>
      void response?.end([chunk({}, "stop"), usageOf(5, completion), done].join(""));
    const more = later((await gateway.post("/v1/chat/completions", stream)).text());
    await counted(gateway, 0, 2);
    end(open[0], 9);
    await more;
    await counted(gateway, 5, 9);
    const fewer = later((await gateway.post("/v1/chat/completions", stream)).text());
    await counted(gateway, 5, 11);
    end(open[1], 1);
    await fewer;
    await counted(gateway, 10, 11);
    provider.fail({ kind: "hang" });
    const provided = later(gateway.post("/v1/chat/completions", { ...stream, model: "big" }));
    const response = await until("the provider is asked", () => provider.posts[0]?.response);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(helloChunks.slice(0, 3).join(""));
    const ofProvider = 'berth_tokens_total{slot="upstream acme",direction="out"}';
    await until("what has arrived is counted", async () => (await gateway.metric(ofProvider)) === 2);
    end(response, 7);
    await (await provided).text();
    await until("the provider's count is added", async () => (await gateway.metric(ofProvider)) === 7);
  });

  it("are not counted twice where a protocol repeats its text", async () => {
    const event = (type: string, rest: object): string =>
      `event: response.${type}\ndata: ${JSON.stringify({ type: `response.${type}`, ...rest })}\n\n`;
    const part = { type: "output_text", text: "hello" };
    const usage = { input_tokens: 4, output_tokens: 2 };
    const events = [
      event("created", { response: { output: [] } }),
      ...["hel", "lo"].map((delta) => event("output_text.delta", { delta })),
      event("output_text.done", { text: "hello" }),
      event("content_part.done", { part }),
      event("output_item.done", { item: { type: "message", content: [part] } }),
      event("completed", { response: { output: [{ content: [part] }], usage } }),
    ];
    await using engine = await scriptedEngine(streaming(...events));
    const status = { protocols: ["responses" as const] };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, status } } });
    await (await gateway.post("/v1/responses", { model: "primary", input: "hi", stream: true })).text();
    await counted(gateway, 4, 2);
    engine.answer(streaming(events.join("")));
    await (await gateway.post("/v1/responses", { model: "primary", input: "hi", stream: true })).text();
    await counted(gateway, 8, 4);
  });

  it("are those of the text alone in Messages", async () => {
    const event = (type: string, rest: object = {}): string =>
      `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
    const message = { role: "assistant", content: [], usage: { input_tokens: 4, output_tokens: 0 } };
    const events = [
      event("message_start", { message }),
      event("content_block_start", { index: 0, content_block: { type: "text", text: "" } }),
      ...["hel", "lo"].map((text) => event("content_block_delta", { index: 0, delta: { type: "text_delta", text } })),
      event("content_block_stop", { index: 0 }),
      event("message_delta", { delta: { stop_reason: "end_turn" }, usage: { input_tokens: 4, output_tokens: 2 } }),
      event("message_stop"),
    ];
    await using engine = await scriptedEngine();
    const status = { protocols: ["messages" as const] };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, status } } });
    for (const [nth, script] of [streaming(...events), streaming(events.join(""))].entries()) {
      engine.answer(script);
      await (await gateway.post("/v1/messages", { ...stream, max_tokens: 9 })).text();
      await counted(gateway, 4 * (nth + 1), 2 * (nth + 1));
    }
  });
});

it("a wait counts as held while the slot was not loaded, as a cold start of its first token, and is in the access log", async () => {
  await using engine = await scriptedEngine(sayHello);
  await using gateway = await startGateway({ slots: { primary: { state: "starting" } } });
  const streams = [gateway.post("/v1/chat/completions", stream), gateway.post("/v1/chat/completions", stream)];
  await until("both are held", async () => (await gateway.metric('berth_requests_held{slot="primary"}')) === 2);
  await gateway.publish("primary", { port: engine.port });
  for (const answered of streams) await (await answered).text();
  await (await gateway.post("/v1/chat/completions", stream)).text();
  await until("a warm one is counted", async () => (await gateway.metric(first)) === 1);
  assert.equal(await gateway.metric(first.replace("warm", "cold")), 2);
  assert.equal(await gateway.metric('berth_request_hold_seconds_count{slot="primary"}'), 2);
  assert.equal(await gateway.metric('berth_shared_stream_joins_total{slot="primary"}'), 1);
  await until("both are logged", () => gateway.log().split('"heldMs"').length === 3);
  const lines = gateway.log().split("\n");
  const fields: unknown = JSON.parse(lines.find((each) => each.includes("heldMs")) ?? "");
  // A slow machine may let it wait a millisecond in the queue of the loaded slot, too.
  const names = Object.keys(Object(fields)).filter((field) => field !== "queuedMs");
  assert.equal(
    names.slice(3).join(" "),
    "requestId slot status asked stream resolved ms heldMs firstTokenMs engineMs tokensOut msg",
  );
});
