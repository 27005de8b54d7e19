import assert from "node:assert/strict";
import { describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startProvider } from "../../doubles/provider.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type SlotSketch } from "../../support/gateway.ts";
import { helloChunks, json, sayHello, scriptedEngine, type Script } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { specOf } from "../upstreams/fixture.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { startGateway as startProtected } from "../auth/gateway.ts";
import { later } from "../../support/later.ts";
import { assistant, text, toolCall, toolResult } from "./bodies.ts";
import { openSite } from "./site.ts";

const hello = { role: "user" as const, content: "hello" };
const ask = { model: "primary", max_tokens: 9, messages: [hello] };
const anthropic = ({ url }: { url: string }, token = "none"): Anthropic["messages"] =>
  new Anthropic({ apiKey: token, baseURL: url, maxRetries: 0 }).messages;
const openai = ({ url }: { url: string }, token = "none"): OpenAI =>
  new OpenAI({ apiKey: token, baseURL: `${url}/v1`, maxRetries: 0 });

/** Streams these pieces, then cuts the connection, or ends it with `rest`. */
const streams =
  (pieces: readonly string[], rest?: string): Script =>
  (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of pieces.slice(0, -1)) response.write(piece);
    response.write(pieces.at(-1), () => (rest === undefined ? response.destroy() : response.end(rest)));
  };

describe("Messages over an engine that speaks chat", () => {
  it("are answered, whole and as a stream, under the client's name for the model", async () => {
    const rules = { request: { set: { "temperature!": 0, seed: 7 }, strip: ["top_k"] } };
    await using site = await openSite(undefined, { spec: rules });
    const messages = anthropic(site.gateway);
    const sampling: object = { temperature: 1, top_k: 5 };
    const whole = await messages.create({ ...ask, system: "be brief", ...sampling });
    const system = { role: "system", content: "be brief" };
    assert.deepEqual(site.asked(), [
      "/v1/chat/completions",
      { model: "engine-model", messages: [system, hello], max_tokens: 9, temperature: 0, seed: 7 },
    ]);
    const types: string[] = [];
    const streamed = await messages
      .stream(ask)
      .on("streamEvent", ({ type }) => types.push(type))
      .finalMessage();
    for (const { model, content, stop_reason: reason } of [whole, streamed])
      assert.deepEqual([model, content, reason], ["primary", [text("hello")], "end_turn"]);
    const all = [types[0], types.at(-1), new Set(types).size];
    assert.deepEqual(all, ["message_start", "message_stop", 6], "all but ping, which the SDK keeps to itself");
    // Where Anthropic's clients look for it.
    assert.match(whole._request_id ?? "", /^[\w.-]+$/);
    for (const { headers } of site.engine.seen)
      assert.deepEqual([headers["x-api-key"], headers["anthropic-version"]], [undefined, undefined]);
  });

  it("wait for a cold slot, and share its stream when they are the same", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" } },
      gateway: { holdTimes: { firstCommentMs: 20, everyMs: 20 } },
    });
    const asked = [1, 2].map(() => later(anthropic(gateway).stream(ask).finalMessage()));
    await until("both are held", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
    await gateway.publish("primary", { port: engine.port });
    for (const message of await Promise.all(asked)) assert.deepEqual(message.content, [text("hello")]);
    assert.equal(engine.seen.length, 1);
  });

  it("get an error of their own kind, whoever refuses them", async () => {
    await using site = await openSite();
    const messages = anthropic(site.gateway);
    const refusals: readonly (readonly [script: Script, more: object, status: number, type: string, told: RegExp])[] = [
      [
        (response) => json(response, { error: { message: "prompt is too long" } }, 400),
        {},
        400,
        "invalid_request_error",
        /prompt is too long/,
      ],
      [(response) => json(response, {}, 500), {}, 502, "api_error", /the engine answered 500/],
      [(response) => json(response, { a: 1 }), {}, 502, "api_error", /no chat completion/],
      [sayHello, { model: "nobody" }, 404, "not_found_error", /nobody/],
      [sayHello, { max_tokens: 0 }, 400, "invalid_request_error", /max_tokens: must be a whole number/],
    ];
    for (const [script, more, status, type, told] of refusals) {
      site.engine.answer(script);
      const refusal = await rejectionOf(messages.create({ ...ask, ...more }), Anthropic.APIError);
      assert.deepEqual([refusal.status, refusal.type], [status, type]);
      assert.match(refusal.message, told);
    }
    const uncounted = await rejectionOf(
      messages.countTokens({ model: "primary", messages: [hello] }),
      Anthropic.APIError,
    );
    assert.deepEqual([uncounted.status, uncounted.type], [501, "api_error"]);
    assert.deepEqual(await (await site.gateway.post("/v1/messages", "{")).json(), {
      type: "error",
      error: {
        type: "invalid_request_error",
        code: "dispatch.invalid_request",
        message: "the body is not valid JSON",
      },
    });
  });

  for (const [what, rest, message] of [
    ["dies", undefined, /connection closed/],
    ["ends early", "", /ended the stream early/],
  ] as const)
    it(`get an error event when the engine ${what} within its stream`, async () => {
      await using site = await openSite(streams(helloChunks.slice(0, 2), rest));
      const raw = await (await site.gateway.post("/v1/messages", { ...ask, stream: true })).text();
      assert.match(raw, /\n\nevent: error\ndata: \{"type":"error","error":\{[^\n]*\n\n$/);
      assert.ok(!raw.includes("message_stop"));
      const refusal = await rejectionOf(anthropic(site.gateway).stream(ask).finalMessage(), Anthropic.APIError);
      assert.equal(refusal.type, "api_error");
      assert.match(refusal.message, message);
    });

  it("stop the engine when the client leaves", async () => {
    await using site = await openSite((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(helloChunks[1]);
    });
    const stream = anthropic(site.gateway).stream(ask);
    await new Promise((resolve) => stream.once("text", resolve));
    stream.abort();
    await assert.rejects(stream.done());
    await until("the engine notices", () => site.engine.seen[0]?.isAborted);
  });

  it("go to a provider the same way", async () => {
    await using double = await startProvider();
    const upstreams = [{ name: "acme", spec: specOf({ baseUrl: double.baseUrl }) }];
    await using gateway = await startGateway({ registry: { upstreams } });
    const asked = { ...ask, model: "gpt-double" };
    const message = await anthropic(gateway).stream(asked).finalMessage();
    assert.deepEqual([message.model, message.content], ["gpt-double", [text("Hello there.")]]);
    assert.equal(double.posts[0]?.path, "/v1/chat/completions");
    double.fail({ kind: "answer", status: 429, headers: { "retry-after": "3" } });
    const refusal = await rejectionOf<InstanceType<typeof Anthropic.APIError>>(
      anthropic(gateway).create(asked),
      Anthropic.APIError,
    );
    const seen = [refusal.status, refusal.type, refusal.headers?.get("retry-after")];
    assert.deepEqual(seen, [429, "rate_limit_error", "3"]);
  });
});

describe("Messages over an engine that speaks them", () => {
  const event = (type: string, fields: object): string =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`;
  const message = { id: "m", type: "message", role: "assistant", model: "engine-model", content: [], usage: {} };
  const whole = [
    event("message_start", { message }),
    event("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 1 } }),
    event("message_stop", {}),
  ];
  const sketch: SlotSketch = { status: { protocols: ["messages", "count_tokens"] } };

  it("are relayed as they come, apart from the model's name", async () => {
    await using site = await openSite((response, seen) => {
      if (seen.path.endsWith("count_tokens")) return json(response, { input_tokens: 3 });
      return streams(whole, "")(response, seen);
    }, sketch);
    const raw = await (await site.gateway.post("/v1/messages", { ...ask, stream: true })).text();
    assert.equal(raw, whole.join("").replace('"engine-model"', '"primary"'));
    assert.equal(site.asked()[0], "/v1/messages");
    const counted = await anthropic(site.gateway).countTokens({ model: "primary", messages: [hello] });
    assert.deepEqual([counted.input_tokens, site.asked()[0]], [3, "/v1/messages/count_tokens"]);
  });

  it("end with an error event when the engine ends", async () => {
    await using site = await openSite(streams(whole.slice(0, 1)), sketch);
    const refusal = await rejectionOf(anthropic(site.gateway).stream(ask).finalMessage(), Anthropic.APIError);
    assert.equal(refusal.type, "api_error");
  });
});

describe("Responses", () => {
  it("are a chat where the engine does not speak them, whole and as a stream", async () => {
    await using site = await openSite();
    const { responses } = openai(site.gateway);
    const asked = { model: "primary", input: "hello", instructions: "be brief" };
    for (const answer of [await responses.create(asked), await responses.stream(asked).finalResponse()])
      assert.deepEqual([answer.model, answer.output_text, answer.status], ["primary", "hello", "completed"]);
    const messages = [{ role: "system", content: "be brief" }, hello];
    const [path, { stream: _stream, stream_options: _options, ...body }] = site.asked();
    assert.deepEqual([path, body], ["/v1/chat/completions", { model: "engine-model", messages }]);
  });

  it("end with numbered events when a chat engine ends, and name the unsupported field", async () => {
    await using site = await openSite(streams(helloChunks.slice(0, 1)));
    const asked = { model: "primary", input: "x", stream: true };
    const sent = await (await site.gateway.post("/v1/responses", asked)).text();
    assert.deepEqual(
      [...sent.matchAll(/^event: (.*)\ndata: .*?"sequence_number":(\d+)/gm)].map(([, type, at]) => `${at} ${type}`),
      ["0 response.created", "1 response.in_progress", "2 error", "3 response.failed"],
    );
    const refused = await site.gateway.post("/v1/responses", { ...asked, previous_response_id: "resp_1" });
    const { code, details } = (await envelopeOf(refused)).error;
    const seen = [refused.status, code, details?.["path"]];
    assert.deepEqual(seen, [400, "dispatch.invalid_request", ["previous_response_id"]]);
  });

  const named = (id: string | undefined): { type: "item_reference"; id: string } => ({
    type: "item_reference",
    id: id ?? assert.fail("an item without an id"),
  });

  it("resolve items of earlier answers by their ids, as OpenAI's clients send them", async () => {
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
  });

  it("resolve calls of functions and thoughts by their ids, and stopped answers", async () => {
    const city = toolCall("call_1", "city");
    const message = { role: "assistant", reasoning_content: "hm", content: null, tool_calls: [city] };
    await using site = await openSite((response) =>
      json(response, { choices: [{ index: 0, message, finish_reason: "tool_calls" }] }),
    );
    const { responses } = openai(site.gateway);
    const { output } = await responses.create({ model: "primary", input: [hello] });
    assert.equal(output.length, 2);
    const result = { type: "function_call_output" as const, call_id: "call_1", output: "Rome" };
    await responses.create({ model: "primary", input: [hello, ...output.map(({ id }) => named(id)), result] });
    assert.deepEqual(site.asked()[1]["messages"], [hello, assistant(null, city), toolResult("call_1", "Rome")]);

    site.engine.answer((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const each of helloChunks.slice(0, 2)) response.write(each);
    });
    let id: string | undefined;
    for await (const event of await responses.create({ model: "primary", input: [hello], stream: true })) {
      if (event.type === "response.output_item.added") id = event.item.id;
      if (event.type === "response.output_text.delta") break;
    }
    await until("the engine is stopped", () => site.engine.seen.at(-1)?.isAborted === true);
    site.engine.answer(sayHello);
    await responses.create({ model: "primary", input: [hello, named(id)] });
    assert.deepEqual(site.asked()[1]["messages"], [hello, assistant("hel")]);
  });

  it("are relayed where the engine supports them, and end with their own error event when the engine ends", async () => {
    const created = { type: "response.created", sequence_number: 0, response: { id: "r", model: "engine-model" } };
    const script = streams([`event: response.created\ndata: ${JSON.stringify(created)}\n\n`]);
    await using site = await openSite(script, { status: { protocols: ["responses"] } });
    const stream = await openai(site.gateway).responses.create({ model: "primary", input: "x", stream: true });
    const seen: string[] = [];
    const reading = async (): Promise<void> => {
      for await (const event of stream) seen.push(event.type);
    };
    await assert.rejects(reading(), { code: "dispatch.upstream_failed" });
    assert.deepEqual([seen, site.asked()[0]], [["response.created"], "/v1/responses"]);
  });

  const protect = (sketch: SlotSketch) => startProtected({ SVC_AUTH_ENABLED: "1" }, { primary: sketch });

  it("keep nothing with store: false, and give no client the items of another", async () => {
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

  it("share a cold stream only among requests of one user, to whom its items belong", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await protect({ state: "starting" });
    const tokens = await Promise.all(["a", "b"].map((label) => gateway.tokens.create({ label, scope: "all" })));
    const clients = tokens.map(({ token }) => openai(gateway, token).responses);
    const asked = clients.map((each) => later(each.stream({ model: "primary", input: [hello] }).finalResponse()));
    await until("both are held", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
    await gateway.publish("primary", { port: engine.port });
    for (const [at, { output }] of (await Promise.all(asked)).entries())
      await clients[at]?.create({ model: "primary", input: [named(output[0]?.id)] });
    assert.equal(engine.seen.length, 4);
  });

  it("and Messages may carry the token where each SDK has it", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await protect({ port: engine.port });
    const token = await gateway.token("v1-only");
    assert.equal((await anthropic(gateway, token).create(ask)).type, "message");
    const { messages } = new Anthropic({ authToken: token, apiKey: null, baseURL: gateway.url, maxRetries: 0 });
    assert.equal((await messages.create(ask)).type, "message");
    const refusal = await rejectionOf(anthropic(gateway, `${token}x`).create(ask), Anthropic.APIError);
    assert.equal(refusal.status, 401);
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
      const { code, message } = (await envelopeOf(response)).error;
      const told = "slot primary cannot count tokens without answering";
      assert.deepEqual([code, message], ["system.not_implemented", told]);
    }
  });
});

it("embeddings of a certain length are cut here, and too long ones are refused", async () => {
  await using site = await openSite((response) =>
    json(response, { object: "list", model: "engine-model", data: [{ index: 0, embedding: [3, 4, 12, 84] }] }),
  );
  const { embeddings } = openai(site.gateway);
  const embed = (dimensions: number): Promise<OpenAI.CreateEmbeddingResponse> =>
    later(embeddings.create({ model: "primary", input: "x", encoding_format: "float", dimensions }));
  const { data, model } = await embed(2);
  assert.deepEqual([model, data[0]?.embedding, site.asked()[1]["dimensions"]], ["primary", [0.6, 0.8], undefined]);
  const refusal = await rejectionOf(embed(5), OpenAI.APIError);
  assert.equal(refusal.status, 400);
  assert.match(refusal.message, /dimensions: must be at most 4, the length of this model's vectors/);
});

describe("rerank", () => {
  const results = [0.1, 0.8].map((score, index) => ({ index, relevance_score: score }));
  const usage = { prompt_tokens: 2, total_tokens: 2 };

  it("is answered at each of its paths, in one form", async () => {
    await using site = await openSite((response) => json(response, { model: "engine-model", results, usage }));
    const asked = {
      model: "primary",
      query: "q",
      documents: ["a", { text: "b" }],
      top_n: 1,
      return_documents: true,
    };
    for (const path of ["/v1/rerank", "/v1/rerankings", "/v1/reranking", "/rerank"]) {
      assert.deepEqual(await (await site.gateway.post(path, asked)).json(), {
        object: "list",
        model: "primary",
        results: [{ index: 1, relevance_score: 0.8, document: { text: "b" } }],
        usage,
      });
      assert.deepEqual(site.asked(), ["/v1/rerank", { model: "engine-model", query: "q", documents: ["a", "b"] }]);
    }
  });

  it("answers in the form of text-embeddings-inference, whose clients name no model", async () => {
    await using engine = await scriptedEngine((response) => json(response, { results }));
    await using gateway = await startGateway({ slots: { embed: { port: engine.port } } });
    const response = await gateway.post("/rerank", { query: "q", texts: ["a", "b"], return_text: true });
    assert.deepEqual(await response.json(), [
      { index: 1, score: 0.8, text: "b" },
      { index: 0, score: 0.1, text: "a" },
    ]);
    const without = await gateway.post("/rerank", { query: "q", documents: ["a"] });
    assert.equal((await envelopeOf(without)).error.code, "dispatch.missing_model");
  });

  it("refuses a wrong shape with its place, and does not load the slot", async () => {
    await using gateway = await startGateway({ slots: { embed: { state: "offline" } } });
    const response = await gateway.post("/v1/rerank", { model: "embed", query: "q", documents: [1] });
    const { code, details } = (await envelopeOf(response)).error;
    const seen = [response.status, code, details?.["path"]];
    assert.deepEqual(seen, [400, "dispatch.invalid_request", ["documents", 0]]);
  });
});
