import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError, type ErrorCode } from "../../../src/api/errors.ts";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import { RerankTranslation } from "../../../src/gateway/protocols/rerank.ts";
import type { Translation } from "../../../src/gateway/protocols/translation.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { jsonOf } from "../../../src/gateway/media/images/engine-http.ts";
import { EventStream, StreamGarbage } from "../../../src/gateway/relay/event-stream.ts";
import { ModelRename } from "../../../src/gateway/relay/rename.ts";
import { applyRules } from "../../../src/gateway/v1/body-fields.ts";
import { fc } from "../../support/fast-check.ts";
import { data as event, done, encode, failureOf, nothingKept, through } from "./bodies.ts";

const data = (json: string): string => `data: ${json}\n\n`;

/** Passes when `act` succeeds, or fails with this code and nothing else. */
function succeedsOrFails(act: () => unknown, code: ErrorCode): void {
  try {
    act();
  } catch (error) {
    if (error instanceof ApiError) assert.equal(error.code, code);
    else if (!(error instanceof StreamGarbage)) throw error;
  }
}

/** Some of these fields, holding anything. */
const anyOf = (...fields: readonly string[]): fc.Arbitrary<object> =>
  fc.record(Object.fromEntries(fields.map((field) => [field, fc.jsonValue()])), { requiredKeys: [] });

/** Objects with the fields that count, holding anything. */
function objectWith(...fields: readonly string[]): fc.Arbitrary<string> {
  const type = fc.constantFrom("text", "image", "tool_result", "tool_use", "thinking", "document", "x");
  const fieldsOfBlock = anyOf("text", "source", "content", "id", "name", "tool_use_id", "input");
  const block = fc.tuple(fieldsOfBlock, type).map(([rest, kind]) => ({ ...rest, type: kind }));
  const message = fc.record({
    role: fc.constantFrom("user", "assistant", "system", "tool"),
    content: fc.oneof(fc.string(), fc.array(block), fc.jsonValue()),
  });
  const value = fc.oneof(fc.jsonValue(), fc.array(fc.string()), fc.array(message), fc.string(), fc.nat());
  const record = fc.record(Object.fromEntries(fields.map((field) => [field, value])), { requiredKeys: [] });
  return fc.oneof({ weight: 4, arbitrary: record.map((object) => JSON.stringify(object)) }, fc.json(), fc.string());
}

const rankFields = ["query", "documents", "texts", "top_n", "return_documents"];
const chatFields = ["messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config"];
const itemFields = ["input", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "metadata"];
const requests: readonly (readonly [name: string, open: () => Translation, bodies: fc.Arbitrary<string>])[] = [
  ["rerank", () => new RerankTranslation(), objectWith("model", ...rankFields)],
  ["Messages", () => new MessagesTranslation(), objectWith("model", ...chatFields)],
  ["Responses", () => new ResponsesTranslation(nothingKept), objectWith("model", ...itemFields)],
];

const streams = [
  ["Messages", () => new MessagesTranslation()],
  ["Responses", () => new ResponsesTranslation(nothingKept)],
] as const;

describe("whatever is sent", () => {
  for (const [name, open, bodies] of requests) {
    it(`to ${name} is translated or refused as the client's fault`, () => {
      fc.assert(
        fc.property(bodies, (body) => {
          succeedsOrFails(() => {
            const chat: unknown = JSON.parse(open().request(Buffer.from(body)).toString());
            assert.ok(typeof chat === "object" && chat !== null);
          }, "dispatch.invalid_request");
        }),
      );
    });
  }

  it("nested without end is refused, not a failure of ours", () => {
    const deep = `${"[".repeat(20_000)}12345678901234567890${"]".repeat(20_000)}`;
    for (const [act, body] of [
      ...requests.map(([, open]) => [(bytes: Buffer) => open().request(bytes), `{"x":${deep}}`] as const),
      [(bytes: Buffer) => applyRules(bytes, { set: {}, strip: ["b"] }), `{"a":${deep}}`] as const,
    ])
      assert.match(failureOf(() => act(encode(body))).message, /the body (holds too much|is not valid JSON)/);
  });

  const answers = objectWith("id", "choices", "usage", "results", "data", "error", "model");
  for (const [name, open] of requests) {
    it(`by the engine as an answer of ${name} is translated or the engine's failure`, () => {
      fc.assert(
        fc.property(answers, (body) => {
          succeedsOrFails(() => open().answer(Buffer.from(body)), "dispatch.upstream_failed");
        }),
      );
    });
  }

  it("by the engine in one heavy event or answer is not parsed", () => {
    const chunk = '"choices":[{"delta":{"content":"x"},"message":{"content":"x"},"finish_reason":"stop"}]';
    const heavy = [
      `{"x":${"[".repeat(2000)}${"]".repeat(2000)},"n":12345678901234567890,${chunk}}`,
      `{"x":[${"[],".repeat(200_000)}12345678901234567890],${chunk}}`,
    ];
    const events = (): EventStream => new EventStream({ rename: new ModelRename("a", "b"), isChat: true });
    const acts: readonly ((json: string) => unknown)[] = [
      (json) => events().push(encode(data(json))),
      (json) => new MessagesTranslation().stream.push(encode(data(json))),
      (json) => new ResponsesTranslation(nothingKept).stream.push(encode(data(json))),
      ...requests.map((each) => (json: string) => each[1]().answer(encode(json))),
    ];
    for (const json of heavy) {
      for (const act of acts)
        assert.throws(() => act(json), /not JSON|holds more than|has another shape/, act.toString());
      const within = encode(data(`{"message":{"model":"c"},"y":${json}}`));
      assert.equal(jsonOf({ status: 200, body: encode(json) }), undefined);
      assert.equal(new ModelRename("a", "b").lines(within), within);
    }
  });

  for (const [name, open] of streams)
    it(`by the engine as a stream of ${name} is translated or the engine's failure`, () => {
      const choice = fc
        .tuple(anyOf("index", "finish_reason"), anyOf("content", "tool_calls", "reasoning"))
        .map(([fields, delta]) => ({ ...fields, delta }));
      const chunk = fc
        .tuple(anyOf("id"), fc.oneof(fc.jsonValue(), fc.array(choice)))
        .map(([fields, choices]) => ({ ...fields, choices }));
      const line = fc.oneof(
        chunk.map((value) => event(value)),
        fc.string(),
        fc.constantFrom("\n", "data:", "\r\n\r\n", ":x\n"),
      );
      fc.assert(
        fc.property(fc.array(line), (lines) => {
          const { stream } = open();
          const pieces = lines.map((each) => Buffer.from(each));
          succeedsOrFails(() => through({ stream }, pieces), "dispatch.upstream_failed");
        }),
      );
    });
});

describe("null and objects where OpenAI has none", () => {
  const call = { index: null, id: "c1", function: { name: "city", arguments: { city: "here" } } };
  const usage = { prompt_tokens: 9, completion_tokens: null, prompt_tokens_details: null };
  const chunks = [
    {
      id: null,
      choices: [{ index: null, delta: { content: null, tool_calls: null }, finish_reason: null }],
      usage: null,
    },
    { choices: [{ delta: { tool_calls: [call] }, finish_reason: "tool_calls" }] },
    { choices: null, usage },
  ];
  const message = { content: null, tool_calls: [call] };
  const whole = { id: null, choices: [{ message, finish_reason: "stop" }], usage };

  for (const [name, open] of streams.slice(0, 2))
    it(`by the engine are absent, and texts, in ${name}`, () => {
      const text = through(open(), chunks.map((chunk) => event(chunk)).join("") + done);
      for (const got of [text, String(open().answer(encode(whole)))]) {
        assert.match(got, /"input_tokens":9\b/);
        assert.match(got, /city.*here/s);
      }
    });
});
