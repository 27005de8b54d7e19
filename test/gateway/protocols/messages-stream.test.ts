import assert from "node:assert/strict";
import { describe, it } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { ApiError } from "../../../src/api/errors.ts";
import { messagesErrors } from "../../../src/gateway/protocols/messages-errors.ts";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import { failureOf } from "./bodies.ts";
import { fc } from "../../support/fast-check.ts";

interface Event {
  readonly type: string;
  readonly [field: string]: unknown;
}

const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "engine" };
const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };

function chunk(delta: object, finish: string | null = null, choice: object = {}): string {
  return `data: ${JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: finish, ...choice }] })}\n\n`;
}
const usageChunk = `data: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`;
const done = "data: [DONE]\n\n";
const call = (index: number, fields: object): object => ({ tool_calls: [{ index, ...fields }] });

function open(request: object = {}): MessagesTranslation {
  const translation = new MessagesTranslation();
  const body = {
    model: "primary",
    max_tokens: 9,
    stream: true,
    messages: [{ role: "user", content: "x" }],
    ...request,
  };
  translation.request(Buffer.from(JSON.stringify(body)));
  return translation;
}

function translate(sent: string, request: object = {}): string {
  const { stream } = open(request);
  return Buffer.concat([stream.push(Buffer.from(sent)) ?? Buffer.alloc(0), stream.end() ?? Buffer.alloc(0)]).toString();
}

/** The events, each with its name checked against its type. */
function eventsOf(text: string): Event[] {
  return text
    .split("\n\n")
    .slice(0, -1)
    .map((event) => {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? assert.fail(`no event: ${event}`);
      const parsed: Event = JSON.parse(data ?? "");
      assert.equal(parsed.type, name);
      return parsed;
    });
}

describe("a chat stream as Messages events", () => {
  it("has exactly these events for a text", () => {
    const sent = [chunk({ role: "assistant", content: "" }), chunk({ content: "Hel" }), chunk({ content: "lo." })];
    assert.equal(
      translate([...sent, chunk({}, "stop"), usageChunk, done].join("")),
      [
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"primary","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}',
        'event: ping\ndata: {"type":"ping"}',
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}',
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo."}}',
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}',
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":4}}',
        'event: message_stop\ndata: {"type":"message_stop"}\n\n',
      ].join("\n\n"),
    );
  });

  it("streams a call as its pieces arrive, and a second call whole, once the first is over", () => {
    const events = eventsOf(
      translate(
        [
          chunk({ content: "wait" }),
          chunk(call(0, { id: "c0", type: "function", function: { name: "read", arguments: "" } })),
          chunk(call(0, { function: { arguments: '{"a"' } })),
          chunk(call(1, { id: "c1", function: { name: "li", arguments: "" } })),
          chunk(call(1, { function: { name: "st", arguments: "{" } })),
          chunk(call(0, { function: { arguments: ":1}" } })),
          chunk(call(1, { function: { arguments: "}" } })),
          chunk({}, "tool_calls"),
          done,
        ].join(""),
      ),
    );
    const { message_start: _start, ...rest } = Object.groupBy(events, ({ type }) => type);
    assert.deepEqual(
      rest["content_block_start"]?.map(({ content_block: block }) => block),
      [
        { type: "text", text: "" },
        { type: "tool_use", id: "c0", name: "read", input: {} },
        { type: "tool_use", id: "c1", name: "list", input: {} },
      ],
    );
    assert.deepEqual(
      rest["content_block_delta"]?.map(({ index, delta }) => [index, delta]),
      [
        [0, { type: "text_delta", text: "wait" }],
        [1, { type: "input_json_delta", partial_json: '{"a"' }],
        [1, { type: "input_json_delta", partial_json: ":1}" }],
        [2, { type: "input_json_delta", partial_json: "{}" }],
      ],
    );
    assert.deepEqual(rest["message_delta"]?.[0]?.["delta"], { stop_reason: "tool_use", stop_sequence: null });
  });

  it("shows thoughts where the client requested them, and pings otherwise", () => {
    const sent = [chunk({ reasoning_content: "hm" }), chunk({ content: "x" }), chunk({}, "stop"), done].join("");
    const asked = eventsOf(translate(sent, { thinking: { type: "adaptive" } }));
    assert.deepEqual(
      asked.flatMap(({ type, content_block: block, delta }) =>
        type.startsWith("content_block_") ? [block ?? delta] : [],
      ),
      [
        { type: "thinking", thinking: "", signature: "" },
        { type: "thinking_delta", thinking: "hm" },
        undefined,
        { type: "text", text: "" },
        { type: "text_delta", text: "x" },
        undefined,
      ],
    );
    const long = Array.from({ length: 64 }, () => chunk({ reasoning_content: "hm" })).join("");
    const silent = eventsOf(translate(long + sent));
    assert.equal(silent.filter(({ type }) => type === "ping").length, 3);
    assert.ok(!JSON.stringify(silent).includes("hm"));
  });

  it("turns an engine's comments into pings, and reads any line end", () => {
    const sent = `: working\r\n\r\n${chunk({ content: "x" }).replaceAll("\n", "\r\n")}${chunk({}, "stop")}${done}`;
    const types = eventsOf(translate(sent)).map(({ type }) => type);
    assert.deepEqual(types.slice(0, 4), ["ping", "message_start", "ping", "content_block_start"]);
  });

  it("names the stop sequence where the engine does", () => {
    const [delta] = eventsOf(translate(chunk({ content: "x" }, "stop", { stop_reason: "END" }) + done)).slice(-2);
    assert.deepEqual(delta?.["delta"], { stop_reason: "stop_sequence", stop_sequence: "END" });
  });

  it("is whole without [DONE] once the engine has sent its finish reason", () => {
    assert.match(translate(chunk({ content: "x" }, "length")), /"stop_reason":"max_tokens"[^]*message_stop"\}\n\n$/);
  });

  it("has no blocks for an empty answer, and ignores events after the end", () => {
    const types = eventsOf(translate(done + chunk({ content: "late" }))).map(({ type }) => type);
    assert.deepEqual(types, ["message_start", "ping", "message_delta", "message_stop"]);
  });

  it("has an id of its own for each call to which the engine gave an empty one", () => {
    const calls = [0, 1].map((index) => ({ index, id: "", function: { name: "read", arguments: "{}" } }));
    const sent = chunk({ tool_calls: calls }, "tool_calls") + done;
    assert.deepEqual(
      [...translate(sent).matchAll(/"tool_use","id":"(\w*)"/g)].map(([, id]) => id),
      ["msg_1_0", "msg_1_1"],
    );
  });

  it("keeps calls apart where the engine gives each of them the index 0 and an id of its own", () => {
    const piece = (id: string | undefined, text: string): string =>
      chunk({
        tool_calls: [{ index: 0, id, function: { name: id === undefined ? undefined : `f_${id}`, arguments: text } }],
      });
    const sent = [piece("a", '{"x":'), piece(undefined, "1}"), piece("b", "{}"), chunk({}, "tool_calls"), done];
    const text = translate(sent.join(""));
    assert.deepEqual(
      [...text.matchAll(/"id":"(\w)","name":"(\w*)"|"partial_json":"(.*?)"\}/g)].map(([, id, , json]) => id ?? json),
      ["a", '{\\"x\\":', "1}", "b", "{}"],
    );
  });

  it("has the text and the thoughts of content that is a list of parts", () => {
    const thinking = { type: "thinking", thinking: [{ type: "text", text: "hm" }] };
    const sent = chunk({ content: [thinking] }) + chunk({ content: [{ type: "reference", reference_ids: [1] }] });
    const text = translate(`${sent}${chunk({ content: [{ type: "text", text: "x" }] }, "stop")}${done}`, {
      thinking: { type: "adaptive" },
    });
    assert.deepEqual(
      [...text.matchAll(/"(thinking|text)":"(\w+)"/g)].map(([, kind, part]) => [kind, part]),
      [
        ["thinking", "hm"],
        ["text", "x"],
      ],
    );
  });

  it("takes an engine's error of null for none", () => {
    const sent = `data: ${JSON.stringify({ ...head, error: null, choices: [{ delta: { content: "x" }, finish_reason: "stop" }] })}\n\n`;
    assert.match(translate(sent + done), /"text":"x"/);
  });

  it("sends no bytes for half an event", () => {
    const { stream } = open();
    assert.equal(stream.push(Buffer.from("data: {")), undefined);
  });

  const failures: readonly (readonly [sent: string, code: string, message: RegExp])[] = [
    [chunk({ content: "x" }), "dispatch.upstream_failed", /ended the stream early/],
    ["", "dispatch.upstream_failed", /ended the stream early/],
    ["data: {]\n\n", "dispatch.upstream_failed", /not JSON/],
    ['data: {"choices":5}\n\n', "dispatch.upstream_failed", /no chat chunk/],
    ['data: {"error":{"code":500,"message":"boom"}}\n\n', "dispatch.upstream_failed", /failed within its answer/],
    ['data: {"error":{"code":400,"message":"too long"}}\n\n', "dispatch.rejected", /too long/],
    [
      chunk(call(0, { function: { name: "a", arguments: "{}" } })) +
        chunk({ content: "x" }) +
        chunk(call(0, { function: { arguments: "!" } })),
      "dispatch.upstream_failed",
      /went back to a tool call/,
    ],
  ];
  for (const [sent, code, message] of failures) {
    it(`fails with ${code}: ${message.source}`, () => {
      const failure = failureOf(() => translate(sent));
      assert.equal(failure.code, code);
      assert.match(failure.message, message);
    });
  }

  it("fails when calls that wait have no end, in number or in length", () => {
    for (const [size, times] of [
      [100_000, 60],
      [0, 40_000],
    ] satisfies [number, number][]) {
      const { stream } = open();
      const failure = failureOf(() => {
        for (let at = 0; at < times; at++)
          stream.push(Buffer.from(chunk(call(at, { function: { name: "a", arguments: "x".repeat(size) } }))));
      });
      assert.match(failure.message, /tool calls are longer than 4 MiB/);
    }
  });

  it("fails when an event has no end", () => {
    const { stream } = open();
    assert.throws(() => stream.push(Buffer.from(`data: ${"x".repeat(5_000_000)}`)), { name: "StreamGarbage" });
  });
});

/** The official SDK over the translation, with a chat engine that is a function. */
function client(
  engine: (chat: Record<string, unknown>) => string,
  cut: (length: number) => number = () => 7,
): Anthropic {
  return new Anthropic({
    apiKey: "none",
    baseURL: "http://127.0.0.1:9",
    maxRetries: 0,
    fetch: (_url, init) => {
      const translation = new MessagesTranslation();
      let chat: Record<string, unknown>;
      try {
        chat = JSON.parse(translation.request(Buffer.from(typeof init?.body === "string" ? init.body : "")).toString());
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const body = JSON.stringify(messagesErrors.body(error));
        const headers = { "content-type": "application/json" };
        return Promise.resolve(new Response(body, { status: error.status, headers }));
      }
      const answer = Buffer.from(engine(chat));
      if (chat["stream"] !== true) {
        const headers = { "content-type": "application/json" };
        return Promise.resolve(new Response(Buffer.from(translation.answer(answer)), { headers }));
      }
      const parts: Buffer[] = [];
      for (let at = 0; at < answer.length;) {
        const end = at + cut(answer.length);
        parts.push(translation.stream.push(answer.subarray(at, end)) ?? Buffer.alloc(0));
        at = end;
      }
      parts.push(translation.stream.end() ?? Buffer.alloc(0));
      return Promise.resolve(new Response(Buffer.concat(parts), { headers: { "content-type": "text/event-stream" } }));
    },
  });
}

const ask = { model: "primary", max_tokens: 50, messages: [{ role: "user" as const, content: "hello" }] };

describe("the Anthropic SDK over a chat engine", () => {
  it("gets the same message from an answer and from a stream, however the model and the network cut it", async () => {
    const texts = fc.string({ unit: "grapheme", maxLength: 30 });
    const input = fc.dictionary(fc.string({ maxLength: 5 }), fc.oneof(texts, fc.integer()), { maxKeys: 3 });
    const calls = fc.array(fc.record({ name: fc.constantFrom("read", "list"), input }), { maxLength: 3 });
    const cuts = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(texts, calls, cuts, async (text, asked, lengths) => {
        const toolCalls = asked.map(({ name, input }, at) => ({
          id: `c${at}`,
          type: "function",
          function: { name, arguments: JSON.stringify(input) },
        }));
        const finish = toolCalls.length > 0 ? "tool_calls" : "stop";
        const pieces = [...new Intl.Segmenter().segment(text)].map(({ segment }) => chunk({ content: segment }));
        const callPieces = toolCalls.flatMap(({ id, function: { name, arguments: args } }, index) => [
          chunk(call(index, { id, function: { name, arguments: args.slice(0, 3) } })),
          chunk(call(index, { function: { arguments: args.slice(3) } })),
        ]);
        let turn = 0;
        const messages = client(
          (chat) =>
            chat["stream"] === true
              ? [
                  chunk({ role: "assistant", content: "" }),
                  ...pieces,
                  ...callPieces,
                  chunk({}, finish),
                  usageChunk,
                  done,
                ].join("")
              : JSON.stringify({
                  ...head,
                  choices: [{ index: 0, finish_reason: finish, message: { content: text, tool_calls: toolCalls } }],
                  usage,
                }),
          () => lengths[turn++ % lengths.length] ?? 1,
        ).messages;
        const whole = await messages.create(ask);
        const streamed = await messages.stream(ask).finalMessage();
        assert.deepEqual(
          [streamed.id, streamed.model, streamed.content, streamed.stop_reason, streamed.usage],
          [whole.id, whole.model, whole.content, whole.stop_reason, whole.usage],
        );
        assert.equal(whole.content.length, (text === "" ? 0 : 1) + asked.length);
      }),
      { numRuns: 60 },
    );
  });

  it("uses a tool and gives its result back", async () => {
    const seen: unknown[] = [];
    const { messages } = client((chat) => {
      seen.push(chat["messages"]);
      const toolCalls = [{ id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } }];
      const isFirst = seen.length === 1;
      const message = isFirst ? { content: null, tool_calls: toolCalls } : { content: "Sunny." };
      return JSON.stringify({ ...head, choices: [{ message, finish_reason: isFirst ? "tool_calls" : "stop" }], usage });
    });
    const tools: Anthropic.Tool[] = [{ name: "weather", input_schema: { type: "object", properties: {} } }];
    const first = await messages.create({ ...ask, tools });
    const use = first.content.find((block) => block.type === "tool_use");
    assert.deepEqual(use?.input, { city: "Bern" });
    const result: Anthropic.ToolResultBlockParam = {
      type: "tool_result",
      tool_use_id: use?.id ?? "",
      content: "22 °C",
    };
    const second = await messages.create({
      ...ask,
      tools,
      messages: [...ask.messages, { role: "assistant", content: first.content }, { role: "user", content: [result] }],
    });
    assert.deepEqual(second.content, [{ type: "text", text: "Sunny." }]);
    assert.deepEqual(seen[1], [
      { role: "user", content: "hello" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } }],
      },
      { role: "tool", tool_call_id: "c1", content: "22 °C" },
    ]);
  });

  it("gets its own kind of error for a request that cannot be translated", async () => {
    const { messages } = client(() => "");
    await assert.rejects(messages.create({ ...ask, max_tokens: 0 }), (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError);
      assert.equal(error.type, "invalid_request_error");
      assert.match(error.message, /max_tokens: must be a whole number/);
      return true;
    });
  });
});
