import assert from "node:assert/strict";
import { describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { startProvider } from "../../doubles/provider.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { helloChunks, json, sayHello, scriptedEngine, type Script } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";
import { specOf } from "../upstreams/fixture.ts";
import { rejectionOf } from "../../support/rejection.ts";
import { startGateway as startProtected } from "../auth/gateway.ts";
import { later } from "../../support/later.ts";

const ask = { model: "primary", max_tokens: 9, messages: [{ role: "user" as const, content: "hello" }] };

function anthropic({ url }: TestGateway): Anthropic {
  return new Anthropic({ apiKey: "none", baseURL: url, maxRetries: 0 });
}

describe("Messages over an engine that speaks chat", () => {
  it("are answered, whole and as a stream, under the client's name for the model", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const { messages } = anthropic(gateway);
    const whole = await messages.create({ ...ask, system: "be brief" });
    const text = [{ type: "text", text: "hello" }];
    assert.deepEqual([whole.model, whole.content, whole.stop_reason], ["primary", text, "end_turn"]);
    const types: string[] = [];
    const stream = messages.stream(ask).on("streamEvent", ({ type }) => types.push(type));
    const streamed = await stream.finalMessage();
    assert.deepEqual([streamed.model, streamed.content, streamed.stop_reason], ["primary", text, "end_turn"]);
    assert.deepEqual(
      [types[0], types.at(-1), new Set(types).size],
      ["message_start", "message_stop", 6],
      "every kind of event but ping, which the SDK keeps to itself",
    );
    assert.deepEqual(
      engine.seen.map(({ path }) => path),
      ["/v1/chat/completions", "/v1/chat/completions"],
    );
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), {
      model: "engine-model",
      messages: [{ role: "system", content: "be brief" }, ...ask.messages],
      max_tokens: 9,
    });
    // Where Anthropic's clients look for it.
    assert.match(whole._request_id ?? "", /^[\w.-]+$/);
    for (const { headers } of engine.seen) {
      assert.equal(headers["x-api-key"], undefined);
      assert.equal(headers["anthropic-version"], undefined);
    }
  });

  it("keep the slot's rules for requests", async () => {
    await using engine = await scriptedEngine();
    const spec = { request: { set: { "temperature!": 0, seed: 7 }, strip: ["top_k"] } };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, spec } } });
    await gateway.post("/v1/messages", { ...ask, temperature: 1, top_k: 5 });
    const { temperature, seed, top_k: topK } = JSON.parse(engine.seen[0]?.body ?? "");
    assert.deepEqual([temperature, seed, topK], [0, 7, undefined]);
  });

  it("wait for a cold slot, and share its stream when they are the same", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({
      slots: { primary: { state: "starting" } },
      gateway: { holdTimes: { firstCommentMs: 20, everyMs: 20 } },
    });
    const { messages } = anthropic(gateway);
    const asked = [later(messages.stream(ask).finalMessage()), later(messages.stream(ask).finalMessage())];
    await until("both are held", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
    await gateway.publish("primary", { port: engine.port });
    for (const message of await Promise.all(asked)) {
      assert.deepEqual(message.content, [{ type: "text", text: "hello" }]);
    }
    assert.equal(engine.seen.length, 1);
  });

  const early: readonly (readonly [what: string, script: Script, status: number, type: string, message: RegExp])[] = [
    [
      "the engine refuses",
      (response) => json(response, { error: { message: "prompt is too long" } }, 400),
      400,
      "invalid_request_error",
      /prompt is too long/,
    ],
    ["the engine fails", (response) => json(response, {}, 500), 502, "api_error", /the engine answered 500/],
    [
      "the engine answers something else",
      (response) => json(response, { a: 1 }),
      502,
      "api_error",
      /no chat completion/,
    ],
  ];
  for (const [what, script, status, type, message] of early) {
    it(`get an error of their own kind when ${what}`, async () => {
      await using engine = await scriptedEngine(script);
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
      const refusal = await rejectionOf(anthropic(gateway).messages.create(ask), Anthropic.APIError);
      assert.deepEqual([refusal.status, refusal.type], [status, type]);
      assert.match(refusal.message, message);
    });
  }

  it("get an error of their own kind when there is no such model, or no such request", async () => {
    await using gateway = await startGateway({ slots: { primary: { port: 9 } } });
    const { messages } = anthropic(gateway);
    const unknown = await rejectionOf(messages.create({ ...ask, model: "nobody" }), Anthropic.APIError);
    assert.deepEqual([unknown.status, unknown.type], [404, "not_found_error"]);
    const wrong = await rejectionOf(messages.create({ ...ask, max_tokens: 0 }), Anthropic.APIError);
    assert.deepEqual([wrong.status, wrong.type], [400, "invalid_request_error"]);
    const body = await (await gateway.post("/v1/messages", "{")).json();
    assert.deepEqual(body, {
      type: "error",
      error: {
        type: "invalid_request_error",
        code: "dispatch.invalid_request",
        message: "the body is not valid JSON",
      },
    });
  });

  const broken: readonly (readonly [what: string, rest: string | undefined, message: RegExp])[] = [
    ["dies", undefined, /connection closed/],
    ["ends early", "", /ended the stream early/],
    ["says so itself", 'data: {"error":{"code":500,"message":"boom"}}\n\n', /failed within its answer/],
    ["sends garbage", "data: {]\n\n", /not JSON/],
  ];
  for (const [what, rest, message] of broken) {
    it(`get an error event when the engine ${what} within its stream`, async () => {
      await using engine = await scriptedEngine((response) => {
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.write(helloChunks[0]);
        response.write(helloChunks[1], () => (rest === undefined ? response.destroy() : response.end(rest)));
      });
      await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
      const raw = await (await gateway.post("/v1/messages", { ...ask, stream: true })).text();
      const last = raw.trimEnd().split("\n\n").at(-1) ?? "";
      assert.match(last, /^event: error\ndata: \{"type":"error","error":\{/);
      assert.ok(!raw.includes("message_stop"));
      const refusal = await rejectionOf(anthropic(gateway).messages.stream(ask).finalMessage(), Anthropic.APIError);
      assert.equal(refusal.type, "api_error");
      assert.match(refusal.message, message);
    });
  }

  it("stop the engine when the client leaves", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(helloChunks[1]);
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const stream = anthropic(gateway).messages.stream(ask);
    await new Promise((resolve) => stream.once("text", resolve));
    stream.abort();
    await assert.rejects(stream.done());
    await until("the engine notices", () => engine.seen[0]?.isAborted);
  });

  it("cannot be counted without an answer", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const { model, messages } = ask;
    const refusal = await rejectionOf(anthropic(gateway).messages.countTokens({ model, messages }), Anthropic.APIError);
    assert.deepEqual([refusal.status, refusal.type], [501, "api_error"]);
  });

  it("go to a provider the same way", async () => {
    await using double = await startProvider();
    const upstreams = [{ name: "acme", spec: specOf({ baseUrl: double.baseUrl }) }];
    await using gateway = await startGateway({ registry: { upstreams } });
    const { messages } = anthropic(gateway);
    const message = await messages.stream({ ...ask, model: "gpt-double" }).finalMessage();
    assert.deepEqual([message.model, message.content], ["gpt-double", [{ type: "text", text: "Hello there." }]]);
    assert.equal(double.posts[0]?.path, "/v1/chat/completions");
    double.fail({ kind: "answer", status: 429, headers: { "retry-after": "3" } });
    const refusal = await rejectionOf<InstanceType<typeof Anthropic.APIError>>(
      messages.create({ ...ask, model: "gpt-double" }),
      Anthropic.APIError,
    );
    assert.deepEqual(
      [refusal.status, refusal.type, refusal.headers?.get("retry-after")],
      [429, "rate_limit_error", "3"],
    );
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
  const sketch = (port: number): object => ({ port, status: { protocols: ["messages", "count_tokens"] } });

  it("are relayed as they come, apart from the model's name", async () => {
    await using engine = await scriptedEngine((response, { path }) => {
      if (path.endsWith("count_tokens")) return json(response, { input_tokens: 3 });
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(whole.join(""));
    });
    await using gateway = await startGateway({ slots: { primary: sketch(engine.port) } });
    const raw = await (await gateway.post("/v1/messages", { ...ask, stream: true })).text();
    assert.equal(raw, whole.join("").replace('"engine-model"', '"primary"'));
    const { model, messages } = ask;
    assert.equal((await anthropic(gateway).messages.countTokens({ model, messages })).input_tokens, 3);
    assert.deepEqual(
      engine.seen.map(({ path }) => path),
      ["/v1/messages", "/v1/messages/count_tokens"],
    );
  });

  it("end with an error event when the engine ends", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(whole[0], () => response.destroy());
    });
    await using gateway = await startGateway({ slots: { primary: sketch(engine.port) } });
    const refusal = await rejectionOf(anthropic(gateway).messages.stream(ask).finalMessage(), Anthropic.APIError);
    assert.equal(refusal.type, "api_error");
  });
});

describe("Responses", () => {
  const openai = ({ url }: TestGateway): OpenAI => new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });
  const created = { type: "response.created", sequence_number: 0, response: { id: "r", model: "engine-model" } };

  it("are a chat where the engine does not speak them, whole and as a stream", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const { responses } = openai(gateway);
    const asked = { model: "primary", input: "hello", instructions: "be brief" };
    const whole = await responses.create(asked);
    const streamed = await responses.stream(asked).finalResponse();
    for (const { model, output_text: text, status } of [whole, streamed])
      assert.deepEqual([model, text, status], ["primary", "hello", "completed"]);
    assert.deepEqual(
      engine.seen.map(({ path }) => path),
      ["/v1/chat/completions", "/v1/chat/completions"],
    );
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), {
      model: "engine-model",
      messages: [
        { role: "system", content: "be brief" },
        { role: "user", content: "hello" },
      ],
    });
  });

  it("end with numbered events when a chat engine ends, and name the unsupported field", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(helloChunks[0], () => response.destroy());
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const text = await (await gateway.post("/v1/responses", { model: "primary", input: "x", stream: true })).text();
    const types = [...text.matchAll(/^event: (.*)\ndata: .*?"sequence_number":(\d+)/gm)].map(([, type, at]) => [
      type,
      at,
    ]);
    assert.deepEqual(types, [
      ["response.created", "0"],
      ["response.in_progress", "1"],
      ["error", "2"],
      ["response.failed", "3"],
    ]);
    const asked = { model: "primary", input: "x", previous_response_id: "resp_1" };
    const refused = await gateway.post("/v1/responses", asked);
    const { error } = await envelopeOf(refused);
    assert.deepEqual(
      [refused.status, error.code, error.details?.["path"]],
      [400, "dispatch.invalid_request", ["previous_response_id"]],
    );
  });

  /** What the engine was told of the conversation. */
  const messagesOf = (body: string | undefined): unknown => JSON.parse(body ?? "").messages;
  const question = { role: "user" as const, content: "hello" };

  it("resolve items of earlier answers by their ids, as OpenAI's clients send them", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const { responses } = openai(gateway);
    const first = await responses.create({ model: "primary", input: [question] });
    const second = await responses.stream({ model: "primary", input: [question] }).finalResponse();
    for (const { output } of [first, second]) {
      const input = [
        question,
        { type: "item_reference" as const, id: output[0]?.id ?? "" },
        { role: "user" as const, content: "and?" },
      ];
      await responses.create({ model: "primary", input });
      assert.deepEqual(messagesOf(engine.seen.at(-1)?.body), [
        question,
        { role: "assistant", content: "hello" },
        { role: "user", content: "and?" },
      ]);
    }
    assert.notEqual(first.output[0]?.id, second.output[0]?.id);
  });

  it("resolve calls of functions and thoughts by their ids, and stopped answers", async () => {
    await using engine = await scriptedEngine((response) => {
      const called = { id: "call_1", type: "function", function: { name: "city", arguments: "{}" } };
      const message = { role: "assistant", reasoning_content: "hm", content: null, tool_calls: [called] };
      json(response, { choices: [{ index: 0, message, finish_reason: "tool_calls" }] });
    });
    await using gateway = await startGateway({ slots: { primary: { port: engine.port } } });
    const { responses } = openai(gateway);
    const { output } = await responses.create({ model: "primary", input: [question] });
    const named = output.map(({ id }) => ({ type: "item_reference" as const, id: id ?? "" }));
    assert.equal(named.length, 2);
    const result = { type: "function_call_output" as const, call_id: "call_1", output: "Rome" };
    await responses.create({ model: "primary", input: [question, ...named, result] });
    assert.deepEqual(messagesOf(engine.seen.at(-1)?.body), [
      question,
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "city", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "call_1", content: "Rome" },
    ]);

    engine.answer((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const each of helloChunks.slice(0, 2)) response.write(each);
    });
    const stream = await responses.create({ model: "primary", input: [question], stream: true });
    let id = "";
    for await (const event of stream) {
      if (event.type === "response.output_item.added") id = event.item.id ?? "";
      if (event.type === "response.output_text.delta") break;
    }
    await until("the engine is stopped", () => engine.seen.at(-1)?.isAborted === true);
    engine.answer(sayHello);
    await responses.create({ model: "primary", input: [question, { type: "item_reference", id }] });
    assert.deepEqual(messagesOf(engine.seen.at(-1)?.body), [question, { role: "assistant", content: "hel" }]);
  });

  it("may carry the token where each SDK has it", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startProtected({ SVC_AUTH_ENABLED: "1" }, { primary: { port: engine.port } });
    const ask = async (credentials: { apiKey: string } | { authToken: string; apiKey: null }): Promise<string> =>
      (
        await new Anthropic({ ...credentials, baseURL: gateway.url, maxRetries: 0 }).messages.create({
          model: "primary",
          max_tokens: 9,
          messages: [{ role: "user", content: "hi" }],
        })
      ).type;
    const token = await gateway.token("v1-only");
    assert.equal(await ask({ apiKey: token }), "message");
    assert.equal(await ask({ authToken: token, apiKey: null }), "message");
    assert.equal((await rejectionOf(ask({ apiKey: `${token}x` }), Anthropic.APIError)).status, 401);
  });

  it("keep nothing with store: false, and give no client the items of another", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startProtected({ SVC_AUTH_ENABLED: "1" }, { primary: { port: engine.port } });
    const [mine, other] = [await gateway.token("all"), await gateway.token("v1-only")];
    const client = (apiKey: string): OpenAI["responses"] =>
      new OpenAI({ apiKey, baseURL: `${gateway.url}/v1`, maxRetries: 0 }).responses;
    const kept = await client(mine).create({ model: "primary", input: [question] });
    const unkept = await client(mine).create({ model: "primary", input: [question], store: false });
    const named = ({ output }: OpenAI.Responses.Response): OpenAI.Responses.ResponseCreateParamsNonStreaming => ({
      model: "primary",
      input: [{ type: "item_reference", id: output[0]?.id ?? "" }],
    });
    await client(mine).create(named(kept));
    const asked = engine.seen.length;
    for (const [token, answer] of [
      [other, kept],
      [mine, unkept],
    ] as const) {
      const refusal = await rejectionOf(client(token).create(named(answer)), OpenAI.APIError);
      assert.equal(refusal.status, 400);
      assert.match(refusal.message, /not stored here \(any more\): send items whole, as SDKs do with store: false/);
    }
    const [item] = kept.output;
    const twice = [1, 2].map(() => ({ type: "item_reference" as const, id: item?.id ?? "" }));
    const refusal = await rejectionOf(client(mine).create({ model: "primary", input: twice }), OpenAI.APIError);
    assert.match(refusal.message, /names an item a second time/);
    assert.equal(engine.seen.length, asked, "the engine heard nothing of these");
  });

  it("share a cold stream only among requests of one user, to whom its items belong", async () => {
    await using engine = await scriptedEngine();
    await using gateway = await startProtected({ SVC_AUTH_ENABLED: "1" }, { primary: { state: "starting" } });
    const tokens = [
      await gateway.tokens.create({ label: "a", scope: "all" }),
      await gateway.tokens.create({ label: "b", scope: "all" }),
    ];
    const clients = tokens.map(
      ({ token }) => new OpenAI({ apiKey: token, baseURL: `${gateway.url}/v1`, maxRetries: 0 }),
    );
    const asked = clients.map(({ responses }) =>
      later(responses.stream({ model: "primary", input: [question] }).finalResponse()),
    );
    await until("both are held", async () => (await gateway.metric("berth_shared_stream_readers")) === 2);
    await gateway.publish("primary", { port: engine.port });
    for (const [at, answer] of (await Promise.all(asked)).entries()) {
      const input = [{ type: "item_reference" as const, id: answer.output[0]?.id ?? "" }];
      await clients[at]?.responses.create({ model: "primary", input });
    }
    assert.equal(engine.seen.length, 4);
  });

  it("are relayed where the engine supports them, and end with their own error event when the engine ends", async () => {
    await using engine = await scriptedEngine((response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`event: response.created\ndata: ${JSON.stringify(created)}\n\n`, () => response.destroy());
    });
    const slots = { primary: { port: engine.port, status: { protocols: ["responses" as const] } } };
    await using gateway = await startGateway({ slots });
    const stream = await openai(gateway).responses.create({ model: "primary", input: "x", stream: true });
    const seen: string[] = [];
    await assert.rejects(
      async () => {
        for await (const event of stream) seen.push(event.type);
      },
      { code: "dispatch.upstream_failed" },
    );
    assert.deepEqual(seen, ["response.created"]);
    assert.equal(engine.seen[0]?.path, "/v1/responses");
  });
});

describe("counts of tokens", () => {
  const chat = { model: "primary", messages: [{ role: "user", content: "hello" }] };

  it("are those of the engine, for chats and for the chats that are made of Responses and Messages", async () => {
    await using engine = await scriptedEngine((response) =>
      json(response, { object: "response.input_tokens", input_tokens: 3 }),
    );
    const status = { protocols: ["input_tokens" as const] };
    await using gateway = await startGateway({ slots: { primary: { port: engine.port, status } } });
    const counted = { object: "response.input_tokens", input_tokens: 3 };
    assert.deepEqual(await (await gateway.post("/v1/chat/completions/input_tokens", chat)).json(), counted);
    const asked = { model: "primary", input: "hello" };
    assert.deepEqual(await (await gateway.post("/v1/responses/input_tokens", asked)).json(), counted);
    assert.deepEqual(await (await gateway.post("/v1/messages/count_tokens", chat)).json(), { input_tokens: 3 });
    for (const { path, body } of engine.seen)
      assert.deepEqual(
        [path, JSON.parse(body)],
        ["/v1/chat/completions/input_tokens", { ...chat, model: "engine-model" }],
      );
    await gateway.publish("primary", { port: engine.port, status: { protocols: ["responses", "input_tokens"] } });
    await gateway.post("/v1/responses/input_tokens", asked);
    const { path, body } = engine.seen.at(-1) ?? assert.fail();
    assert.deepEqual([path, JSON.parse(body)], ["/v1/responses/input_tokens", { ...asked, model: "engine-model" }]);
  });

  it("are 501 where the engine has none, and wake no slot", async () => {
    await using gateway = await startGateway({ slots: { primary: { state: "offline" } } });
    for (const path of ["/v1/chat/completions/input_tokens", "/v1/responses/input_tokens"]) {
      const response = await gateway.post(path, { ...chat, input: "hello" });
      assert.equal(response.status, 501);
      assert.equal(response.headers.get("x-should-retry"), "false");
      const { error } = await envelopeOf(response);
      assert.deepEqual(
        [error.code, error.message],
        ["system.not_implemented", "slot primary cannot count tokens without answering"],
      );
    }
  });
});

describe("embeddings of a certain length", () => {
  const vector = [3, 4, 12, 84];
  const floats = Buffer.from(new Float32Array(vector).buffer).toString("base64");
  const start = async (): Promise<AsyncDisposable & { client: OpenAI; seen: readonly { body: string }[] }> => {
    await using stack = new AsyncDisposableStack();
    const engine = stack.use(
      await scriptedEngine((response, { body }) => {
        const embedding = /base64/.test(body) ? floats : vector;
        json(response, { object: "list", model: "engine-model", data: [{ object: "embedding", index: 0, embedding }] });
      }),
    );
    const gateway = stack.use(await startGateway({ slots: { embed: { port: engine.port } } }));
    const client = new OpenAI({ apiKey: "x", baseURL: `${gateway.url}/v1`, maxRetries: 0 });
    const owned = stack.move();
    return { client, seen: engine.seen, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  };

  for (const encoding of ["float", "base64"] as const) {
    it(`are the beginning of the engine's, of length 1 again: ${encoding}`, async () => {
      await using open = await start();
      const asked = { model: "embed", input: "x", encoding_format: encoding };
      const embed = async (dimensions: number): Promise<unknown> => {
        const { data, model } = await open.client.embeddings.create({ ...asked, dimensions });
        assert.equal(model, "embed");
        const [one]: { embedding: unknown }[] = data;
        // The SDK decodes base64 only where it asked for it itself.
        if (typeof one?.embedding !== "string") return one?.embedding;
        const bytes = Buffer.from(one.embedding, "base64");
        return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at));
      };
      assert.deepEqual(
        await embed(2),
        [3 / 5, 4 / 5].map((value) => (encoding === "float" ? value : Math.fround(value))),
      );
      assert.deepEqual(await embed(4), vector, "all of it, as it was");
      assert.equal(JSON.parse(open.seen[0]?.body ?? "").dimensions, undefined);
      const refusal = await rejectionOf(open.client.embeddings.create({ ...asked, dimensions: 5 }), OpenAI.APIError);
      assert.deepEqual([refusal.status], [400]);
      assert.match(refusal.message, /dimensions: must be at most 4, the length of this model's vectors/);
    });
  }

  it("are refused where the length is not a positive whole number", async () => {
    await using open = await start();
    for (const dimensions of [0, -1, 1.5]) {
      const asked = open.client.embeddings.create({ model: "embed", input: "x", dimensions });
      const refusal = await rejectionOf(asked, OpenAI.APIError);
      assert.equal(refusal.status, 400);
      assert.match(refusal.message, /dimensions: must be a whole number, at least 1/);
    }
    assert.equal(open.seen.length, 0);
  });
});

describe("rerank", () => {
  for (const path of ["/v1/rerank", "/v1/rerankings", "/v1/reranking", "/rerank"]) {
    it(`is answered at ${path}, in one form`, async () => {
      await using engine = await scriptedEngine((response) =>
        json(response, {
          model: "engine-model",
          results: [
            { index: 0, relevance_score: 0.1 },
            { index: 1, relevance_score: 0.8 },
          ],
          usage: { prompt_tokens: 2, total_tokens: 2 },
        }),
      );
      await using gateway = await startGateway({ slots: { embed: { port: engine.port } } });
      const response = await gateway.post(path, {
        model: "embed",
        query: "q",
        documents: ["a", { text: "b" }],
        top_n: 1,
        return_documents: true,
      });
      assert.deepEqual(await response.json(), {
        object: "list",
        model: "embed",
        results: [{ index: 1, relevance_score: 0.8, document: { text: "b" } }],
        usage: { prompt_tokens: 2, total_tokens: 2 },
      });
      assert.deepEqual(
        [engine.seen[0]?.path, JSON.parse(engine.seen[0]?.body ?? "")],
        ["/v1/rerank", { model: "engine-model", query: "q", documents: ["a", "b"] }],
      );
    });
  }

  it("answers in the form of text-embeddings-inference, whose clients name no model", async () => {
    await using engine = await scriptedEngine((response) =>
      json(response, { results: [0.1, 0.8].map((score, index) => ({ index, relevance_score: score })) }),
    );
    await using gateway = await startGateway({ slots: { embed: { port: engine.port } } });
    const asked = { query: "q", texts: ["a", "b"], raw_scores: false, return_text: true, truncate: true };
    const response = await gateway.post("/rerank", asked);
    assert.deepEqual(await response.json(), [
      { index: 1, score: 0.8, text: "b" },
      { index: 0, score: 0.1, text: "a" },
    ]);
    assert.deepEqual(JSON.parse(engine.seen[0]?.body ?? ""), {
      model: "engine-model",
      query: "q",
      documents: ["a", "b"],
      truncate: true,
    });
    const without = await gateway.post("/rerank", { query: "q", documents: ["a"] });
    assert.equal((await envelopeOf(without)).error.code, "dispatch.missing_model");
  });

  it("refuses a wrong shape with its place, and does not load the slot", async () => {
    await using gateway = await startGateway({ slots: { embed: { state: "offline" } } });
    const response = await gateway.post("/v1/rerank", { model: "embed", query: "q", documents: [1] });
    assert.equal(response.status, 400);
    const { error } = await envelopeOf(response);
    assert.equal(error.code, "dispatch.invalid_request");
    assert.deepEqual(error.details?.["path"], ["documents", 0]);
  });
});
