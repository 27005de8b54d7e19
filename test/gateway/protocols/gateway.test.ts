import assert from "node:assert/strict";
import { describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startProvider } from "../../doubles/provider.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type SlotSketch } from "../../support/gateway.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { helloChunks, json, sayHello, scriptedEngine, type Script } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { startGateway as startProtected } from "../auth/gateway.ts";
import { specOf } from "../providers/fixture.ts";
import { assistant, text, toolCall, toolResult } from "./bodies.ts";
import { openSite } from "./site.ts";

const hello = { role: "user" as const, content: "hello" };
const ask = { model: "primary", max_tokens: 9, messages: [hello] };
const anthropic = ({ url }: { url: string }, token = "none"): Anthropic["messages"] =>
  new Anthropic({ apiKey: token, baseURL: url, maxRetries: 0 }).messages;
const openai = ({ url }: { url: string }, token = "none"): OpenAI =>
  new OpenAI({ apiKey: token, baseURL: `${url}/v1`, maxRetries: 0 });
const protect = (sketch: SlotSketch) => startProtected({ SVC_AUTH_ENABLED: "1" }, { primary: sketch });

/** Streams these pieces, then cuts the connection, or ends it. */
const streams =
  (pieces: readonly string[], isCut = false): Script =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(pieces.join(""), () => (isCut ? response.destroy() : response.end()));
  };

const event = (type: string, fields: object): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
const message = { id: "m", type: "message", role: "assistant", model: "engine-model", content: [], usage: {} };
const whole = [
  event("message_start", { message }),
  event("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 1 } }),
  event("message_stop", {}),
];

describe("Messages", () => {
  it("are a chat where the engine speaks that, whole and as a stream, under the client's name for the model", async () => {
    const rules = { request: { set: { "temperature!": 0, seed: 7 }, strip: ["top_k"] } };
    await using site = await openSite(undefined, { spec: rules });
    const messages = anthropic(site.gateway);
    const sampling: object = { temperature: 1, top_k: 5 };
    const answer = await messages.create({ ...ask, system: "be brief", ...sampling });
    const system = { role: "system", content: "be brief" };
    assert.deepEqual(site.asked(), [
      "/v1/chat/completions",
      { model: "engine-model", messages: [system, hello], max_tokens: 9, temperature: 0, seed: 7 },
    ]);
    for (const { model, content, stop_reason: reason } of [answer, await messages.stream(ask).finalMessage()])
      assert.deepEqual([model, content, reason], ["primary", [text("hello")], "end_turn"]);
    // Where Anthropic's clients look for it.
    assert.match(answer._request_id ?? "", /^[\w.-]+$/);
    for (const { headers } of site.engine.seen)
      assert.deepEqual([headers["x-api-key"], headers["anthropic-version"]], [undefined, undefined]);
  });

  it("get errors of their own kind, whoever refuses them", async () => {
    await using site = await openSite((response) => json(response, { error: { message: "prompt is too long" } }, 400));
    const messages = anthropic(site.gateway);
    for (const [asked, status, type, told] of [
      [() => messages.create(ask), 400, "invalid_request_error", /prompt is too long/],
      [() => messages.create({ ...ask, model: "nobody" }), 404, "not_found_error", /nobody/],
      [() => messages.countTokens({ model: "primary", messages: [hello] }), 501, "api_error", /cannot count tokens/],
    ] as const) {
      const refusal = await rejectionOf(asked(), Anthropic.APIError);
      assert.deepEqual([refusal.status, refusal.type], [status, type]);
      assert.match(refusal.message, told);
    }
  });

  it("go to a provider the same way", async () => {
    await using double = await startProvider();
    const upstreams = [{ name: "acme", spec: specOf({ baseUrl: double.baseUrl }) }];
    await using gateway = await startGateway({ registry: { upstreams } });
    const asked = { ...ask, model: "gpt-double" };
    const answer = await anthropic(gateway).stream(asked).finalMessage();
    assert.deepEqual([answer.model, answer.content], ["gpt-double", [text("Hello there.")]]);
    assert.equal(double.posts[0]?.path, "/v1/chat/completions");
    double.fail({ kind: "answer", status: 429, headers: { "retry-after": "3" } });
    const refusal = await gateway.post("/v1/messages", asked);
    assert.deepEqual([refusal.status, refusal.headers.get("retry-after")], [429, "3"]);
    assert.match(await refusal.text(), /"type":"rate_limit_error"/);
  });

  it("are relayed as they come where the engine speaks them, apart from the model's name", async () => {
    const sketch: SlotSketch = { status: { protocols: ["messages", "count_tokens"] } };
    await using site = await openSite((response, seen) => {
      if (seen.path.endsWith("count_tokens")) return json(response, { input_tokens: 3 });
      return streams(whole)(response, seen);
    }, sketch);
    const raw = await (await site.gateway.post("/v1/messages", { ...ask, stream: true })).text();
    assert.equal(raw, whole.join("").replace('"engine-model"', '"primary"'));
    assert.equal(site.asked()[0], "/v1/messages");
    const counted = await anthropic(site.gateway).countTokens({ model: "primary", messages: [hello] });
    assert.deepEqual([counted.input_tokens, site.asked()[0]], [3, "/v1/messages/count_tokens"]);
  });

  it("and Responses may carry the token where each SDK has it", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await protect({ port: engine.port });
    const token = await gateway.token("v1-only");
    const { messages } = new Anthropic({ authToken: token, apiKey: null, baseURL: gateway.url, maxRetries: 0 });
    for (const each of [anthropic(gateway, token), messages]) assert.equal((await each.create(ask)).type, "message");
    const refusal = await rejectionOf(anthropic(gateway, `${token}x`).create(ask), Anthropic.APIError);
    assert.equal(refusal.status, 401);
  });
});

describe("a stream whose engine dies", () => {
  const created = event("response.created", { sequence_number: 0, response: { id: "r", model: "engine-model" } });
  for (const [what, sent, protocol, path, last] of [
    [
      "Messages of a chat",
      helloChunks[1],
      undefined,
      "/v1/messages",
      /\n\nevent: error\ndata: \{"type":"error","error":\{[^\n]*connection closed[^\n]*\n\n$/,
    ],
    [
      "Messages",
      whole[0],
      "messages",
      "/v1/messages",
      /\n\nevent: error\ndata: \{"type":"error","error":\{[^\n]*\n\n$/,
    ],
    [
      "Responses of a chat",
      helloChunks[0],
      undefined,
      "/v1/responses",
      /event: error\n.*"sequence_number":2.*\n\nevent: response\.failed\n.*"sequence_number":3/,
    ],
    [
      "Responses",
      created,
      "responses",
      "/v1/responses",
      /\n\nevent: error\ndata: \{"type":"error","code":"dispatch\.upstream_failed".*\n\n$/,
    ],
  ] as const)
    it(`ends with an error event of its protocol: ${what}`, async () => {
      const status: SlotSketch["status"] = protocol === undefined ? {} : { protocols: [protocol] };
      await using site = await openSite(streams([sent ?? ""], true), { status });
      const asked = path === "/v1/messages" ? ask : { model: "primary", input: "x" };
      assert.match(await (await site.gateway.post(path, { ...asked, stream: true })).text(), last);
    });
});

describe("items of earlier Responses", () => {
  const named = (id: string | undefined): { type: "item_reference"; id: string } => ({
    type: "item_reference",
    id: id ?? assert.fail("an item without an id"),
  });

  it("are found by their ids, as OpenAI's clients send them: texts, calls, thoughts and stopped answers", async () => {
    await using site = await openSite();
    const { responses } = openai(site.gateway);
    const asked = { model: "primary", input: [hello] };
    const first = await responses.create(asked);
    const second = await responses.stream(asked).finalResponse();
    const next = { role: "user" as const, content: "and?" };
    for (const { output } of [first, second]) {
      await responses.create({ model: "primary", input: [hello, named(output[0]?.id), next] });
      assert.deepEqual(site.asked()[1]["messages"], [hello, assistant("hello"), next]);
    }
    assert.notEqual(first.output[0]?.id, second.output[0]?.id);

    const city = toolCall("call_1", "city");
    const called = { role: "assistant", reasoning_content: "hm", content: null, tool_calls: [city] };
    site.engine.answer((response) =>
      json(response, { choices: [{ index: 0, message: called, finish_reason: "tool_calls" }] }),
    );
    const { output } = await responses.create(asked);
    assert.equal(output.length, 2);
    const result = { type: "function_call_output" as const, call_id: "call_1", output: "Rome" };
    await responses.create({ model: "primary", input: [hello, ...output.map(({ id }) => named(id)), result] });
    assert.deepEqual(site.asked()[1]["messages"], [hello, assistant(null, city), toolResult("call_1", "Rome")]);

    site.engine.answer((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(helloChunks.slice(0, 2).join(""));
    });
    let id: string | undefined;
    for await (const each of await responses.create({ ...asked, stream: true })) {
      if (each.type === "response.output_item.added") id = each.item.id;
      if (each.type === "response.output_text.delta") break;
    }
    await until("the engine is stopped", () => site.engine.seen.at(-1)?.isAborted === true);
    site.engine.answer(sayHello);
    await responses.create({ model: "primary", input: [hello, named(id)] });
    assert.deepEqual(site.asked()[1]["messages"], [hello, assistant("hel")]);
  });

  it("are not kept with store: false, and not given to another client", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await protect({ port: engine.port });
    const client = openai(gateway, await gateway.token("all"));
    const other = openai(gateway, await gateway.token("v1-only"));
    const kept = await client.responses.create({ model: "primary", input: [hello] });
    const unkept = await client.responses.create({ model: "primary", input: [hello], store: false });
    const [mine, lost] = [named(kept.output[0]?.id), named(unkept.output[0]?.id)];
    await client.responses.create({ model: "primary", input: [mine] });
    const asked = engine.seen.length;
    for (const [{ responses }, input, told] of [
      [other, [mine], /not stored here \(any more\): send items whole, as SDKs do with store: false/],
      [client, [lost], /not stored here/],
      [client, [mine, mine], /names an item a second time/],
    ] as const) {
      const refusal = await rejectionOf(responses.create({ model: "primary", input: [...input] }), OpenAI.APIError);
      assert.equal(refusal.status, 400);
      assert.match(refusal.message, told);
    }
    assert.equal(engine.seen.length, asked, "the engine heard nothing of these");
  });
});

describe("counts of tokens", () => {
  const chat = { model: "primary", messages: [hello] };
  const asked = { model: "primary", input: "hello" };

  it("are those of the engine, for chats and for the chats that are made of Responses and Messages", async () => {
    const counted = { object: "response.input_tokens", input_tokens: 3 };
    await using site = await openSite((response) => json(response, counted), {
      status: { protocols: ["input_tokens"] },
    });
    for (const [path, body, answer] of [
      ["/v1/chat/completions/input_tokens", chat, counted],
      ["/v1/responses/input_tokens", asked, counted],
      ["/v1/messages/count_tokens", chat, { input_tokens: 3 }],
    ] as const) {
      assert.deepEqual(await (await site.gateway.post(path, body)).json(), answer);
      assert.deepEqual(site.asked(), ["/v1/chat/completions/input_tokens", { ...chat, model: "engine-model" }]);
    }
    const status: SlotSketch["status"] = { protocols: ["responses", "input_tokens"] };
    await site.gateway.publish("primary", { port: site.engine.port, status });
    await site.gateway.post("/v1/responses/input_tokens", asked);
    assert.deepEqual(site.asked(), ["/v1/responses/input_tokens", { ...asked, model: "engine-model" }]);
  });

  it("are 501 where the engine has none, and wake no slot", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "offline" } } });
    for (const path of ["/v1/chat/completions/input_tokens", "/v1/responses/input_tokens"]) {
      const response = await gateway.post(path, { ...chat, input: "hello" });
      assert.deepEqual([response.status, response.headers.get("x-should-retry")], [501, "false"]);
      const { code, message: told } = (await envelopeOf(response)).error;
      const cannot = "slot primary cannot count tokens without answering";
      assert.deepEqual([code, told], ["system.not_implemented", cannot]);
    }
  });
});
