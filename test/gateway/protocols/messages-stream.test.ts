import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import { fc, runs } from "../../support/fast-check.ts";
import { record } from "../../support/openai.ts";
import {
  anthropicReading,
  callChunk,
  chunk,
  cutAt,
  data,
  done,
  encode,
  failureOf,
  manyCalls,
  text,
  through,
  toolCall,
  usage,
  usageChunk,
} from "./bodies.ts";
import { exchanging } from "./site.ts";

interface Event {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The events of a stream, each with its name checked against its type. */
function eventsOf(sent: string): Event[] {
  return sent
    .split("\n\n")
    .slice(0, -1)
    .map((event) => {
      const [, name, json] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? assert.fail(`no event: ${event}`);
      const parsed: Event = JSON.parse(json ?? "");
      assert.equal(parsed.type, name);
      return parsed;
    });
}

const request = { model: "primary", max_tokens: 50, messages: [{ role: "user" as const, content: "hello" }] };
const open = (): MessagesTranslation => {
  const translation = new MessagesTranslation();
  translation.request(encode({ ...request, stream: true }));
  return translation;
};
/** The blocks of the events, each with its kind, or the call's name and id, and the pieces of its content. */
function blocksOf(events: readonly Event[]): string[] {
  const blocks: string[] = [];
  for (const { type, content_block: block, delta } of events)
    if (type === "content_block_start") {
      const { type: kind, name = kind, id } = record(block);
      blocks.push(
        `${[name, id]
          .filter((each) => each !== undefined)
          .map(String)
          .join("#")}:`,
      );
    } else if (type === "content_block_delta") {
      const { text: words, partial_json: json = words, thinking = json } = record(delta);
      blocks.push(`${blocks.pop()} ${String(thinking)}`);
    } else if (type === "content_block_stop") blocks.push(`${blocks.pop()}.`);
  return blocks;
}

describe("a chat stream as Messages events", () => {
  const ask = exchanging("/v1/messages", { ...request, stream: true });
  const streamed = async (sent: string, more: object = {}): Promise<Event[]> => eventsOf((await ask(more, sent)).text);

  it("has exactly these events for a text", async () => {
    const sent = [chunk({ role: "assistant", content: "" }), chunk({ content: "Hel" }), chunk({ content: "lo." })];
    assert.equal(
      (await ask({}, [...sent, chunk({}, "stop"), usageChunk, done].join(""))).text,
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

  const calls = [0, 1].map((index) => ({ index, id: "", function: { name: "read", arguments: "{}" } }));
  const thinking = { thinking: { type: "adaptive" } };
  const thoughts = { type: "thinking", thinking: [text("hm")] };
  const blocks: readonly (readonly [what: string, blocks: string, sent: readonly string[], request?: object])[] = [
    [
      "a call as its pieces arrive, and a second call whole, once the first is over",
      'text: wait. | read#c0: {"a" :1}. | list#c1: {}.',
      [
        chunk({ content: "wait" }),
        callChunk(0, "", { id: "c0", name: "read" }),
        callChunk(0, '{"a"'),
        callChunk(1, "", { id: "c1", name: "li" }),
        callChunk(1, "{", { name: "st" }),
        callChunk(0, ":1}"),
        callChunk(1, "}"),
        chunk({}, "tool_calls"),
      ],
    ],
    [
      "calls with an id of their own to which the engine gave an empty one",
      "read#msg_1_0: {}. | read#msg_1_1: {}.",
      [chunk({ tool_calls: calls }, "tool_calls")],
    ],
    [
      "calls apart where the engine gives each of them the index 0 and an id of its own",
      'f#a: {"x": 1}. | g#b: {}.',
      [
        callChunk(0, '{"x":', { id: "a", name: "f" }),
        callChunk(0, "1}"),
        callChunk(0, "{}", { id: "b", name: "g" }),
        chunk({}, "tool_calls"),
      ],
    ],
    [
      "thoughts that the client requested",
      "thinking: hm. | text: x.",
      [chunk({ reasoning_content: "hm" }), chunk({ content: "x" }), chunk({}, "stop")],
      thinking,
    ],
    [
      "the text and the thoughts of content that is a list of parts",
      "thinking: hm. | text: x.",
      [
        chunk({ content: [thoughts] }),
        chunk({ content: [{ type: "reference" }] }),
        chunk({ content: [text("x")] }, "stop"),
      ],
      thinking,
    ],
    [
      "the chunk that has an error of null",
      "text: x.",
      [data({ error: null, choices: [{ delta: { content: "x" }, finish_reason: "stop" }] })],
    ],
  ];
  for (const [what, expected, sent, more] of blocks)
    it(`has ${what}`, async () =>
      assert.equal(blocksOf(await streamed(sent.join("") + done, more)).join(" | "), expected));

  it("has pings in place of thoughts that the client did not request", async () => {
    const long = Array.from({ length: 65 }, () => chunk({ reasoning_content: "hm" })).join("");
    const silent = await streamed(long + chunk({ content: "x" }) + chunk({}, "stop") + done);
    assert.equal(silent.filter(({ type }) => type === "ping").length, 3);
    assert.ok(!JSON.stringify(silent).includes("hm"));
  });

  it("turns an engine's comments into pings, and reads any line end", async () => {
    const sent = `: working\r\n\r\n${chunk({ content: "x" }).replaceAll("\n", "\r\n")}${chunk({}, "stop")}${done}`;
    const types = (await streamed(sent)).map(({ type }) => type);
    assert.deepEqual(types.slice(0, 4), ["ping", "message_start", "ping", "content_block_start"]);
  });

  it("is the same for any line end, after a byte order mark and wherever it is cut", () => {
    const sent = `: working\n\n${chunk({ content: "é€" })}${chunk({}, "stop")}${done}`;
    for (const end of ["\n", "\r\n", "\r"]) {
      const bytes = Buffer.from(`\ufeff${sent.replaceAll("\n", end)}`);
      assert.equal(through(open(), cutAt(bytes, [...bytes.keys()])), through(open(), sent), JSON.stringify(end));
    }
  });

  const ends: readonly (readonly [sent: string, reason: string, sequence: string | null])[] = [
    [chunk({ content: "x" }, "stop", { stop_reason: "END" }) + done, "stop_sequence", "END"],
    [callChunk(0, "{}", { id: "a", name: "f" }) + chunk({}, "tool_calls") + done, "tool_use", null],
    // Whole without [DONE] once the engine has sent its finish reason.
    [chunk({ content: "x" }, "length"), "max_tokens", null],
  ];
  for (const [sent, reason, sequence] of ends)
    it(`ends with ${reason}`, async () => {
      const [delta, last] = (await streamed(sent)).slice(-2);
      const expected = { stop_reason: reason, stop_sequence: sequence };
      assert.deepEqual([delta?.["delta"], last?.type], [expected, "message_stop"]);
    });

  it("has no blocks for an empty answer, and ignores events after the end", async () => {
    const types = (await streamed(done + chunk({ content: "late" }))).map(({ type }) => type);
    assert.deepEqual(types, ["message_start", "ping", "message_delta", "message_stop"]);
  });

  const failures: readonly (readonly [sent: string, code: string, message: RegExp])[] = [
    [chunk({ content: "x" }), "dispatch.upstream_failed", /the stream ended early/],
    ["", "dispatch.upstream_failed", /the stream ended early/],
    ["data: {]\n\n", "dispatch.upstream_failed", /not JSON/],
    ['data: {"choices":5}\n\n', "dispatch.upstream_failed", /no chat chunk/],
    ['data: {"error":{"code":500,"message":"boom"}}\n\n', "dispatch.upstream_failed", /ends with a failure/],
    ['data: {"error":{"code":400,"message":"too long"}}\n\n', "dispatch.rejected", /too long/],
    [
      callChunk(0, "{}", { name: "a" }) + chunk({ content: "x" }) + callChunk(0, "!"),
      "dispatch.upstream_failed",
      /goes back to a tool call/,
    ],
  ];
  it("ends with an error where the engine fails, or is answered with one before it has begun", async () => {
    for (const [sent, code, message] of failures) {
      const { text: got } = await ask({}, sent);
      const [, json = ""] = /(?:^|event: error\ndata: )(\{"type":"error".*\})/.exec(got) ?? assert.fail(got);
      const { error } = JSON.parse(json);
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.ok(!got.includes("message_stop"));
    }
  });

  it("fails when calls that wait have no end, in number or in length", () => {
    for (const event of [(at: number) => callChunk(at, "x".repeat(100_000), { name: "a" }), manyCalls]) {
      const { stream } = open();
      const failure = failureOf(() => {
        for (let at = 0; at < 80; at++) stream.push(Buffer.from(event(at)));
      });
      assert.match(failure.message, /tool calls are longer than 4 MiB/);
    }
  });

  it("fails when an event has no end or is an error", () => {
    const endless = [
      `data: ${"x".repeat(5_000_000)}`,
      `data: ${"x".repeat(5_000_000)}\n`,
      "data: xxxxx\n".repeat(1_000_000),
      "x\n".repeat(2_200_000),
    ];
    for (const sent of endless) assert.throws(() => open().stream.push(Buffer.from(sent)), { name: "StreamGarbage" });
    const error = data({ error: { code: 400, message: "too long" } });
    assert.equal(failureOf(() => open().stream.push(Buffer.from(error))).code, "dispatch.rejected");
  });

  it("gives Anthropic's SDK the same message as a whole answer, however the model and the network cut it", async () => {
    const unit = fc.constantFrom("a", " ", "\n", '"', "\\", "ä", "e\u0301", "\u2028", "😀", "👩‍🚀");
    const texts = fc.string({ unit, maxLength: 30 });
    const inputs = fc.dictionary(fc.string({ maxLength: 5 }), fc.oneof(texts, fc.integer()), { maxKeys: 3 });
    const args = inputs.map((each) => JSON.stringify(each));
    const calls = fc.array(fc.tuple(fc.constantFrom("read", "list"), args), { maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(texts, calls, fc.array(fc.nat()), async (words, asked, places) => {
        const finish = asked.length > 0 ? "tool_calls" : "stop";
        const toolCalls = asked.map(([name, args], at) => toolCall(`c${at}`, name, args));
        const message = { content: words, tool_calls: toolCalls };
        const chat = { id: "chatcmpl-1", choices: [{ index: 0, finish_reason: finish, message }], usage };
        const sent = Buffer.from(
          [
            chunk({ role: "assistant", content: "" }),
            ...[...new Intl.Segmenter().segment(words)].map(({ segment }) => chunk({ content: segment })),
            ...asked.flatMap(([name, args], at) => [
              callChunk(at, args.slice(0, 3), { id: `c${at}`, name }),
              callChunk(at, args.slice(3)),
            ]),
            chunk({}, finish) + usageChunk + done,
          ].join(""),
        );
        const cuts = places.map((place) => place % sent.length);
        const stream = anthropicReading(through(open(), cutAt(sent, cuts))).messages.stream(request);
        const { id, model, content, stop_reason: reason, usage: counts } = await stream.finalMessage();
        const answer = open().answer(encode(chat)).toString();
        const whole = await anthropicReading(answer, "application/json").messages.create(request);
        assert.deepEqual(
          [id, model, content, reason, counts],
          [whole.id, whole.model, whole.content, whole.stop_reason, whole.usage],
        );
        assert.equal(content.length, (words === "" ? 0 : 1) + asked.length);
      }),
      { numRuns: runs(30) },
    );
  });
});
