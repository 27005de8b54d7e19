import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readFormat, readMessages, readToolUse } from "../../../engines/src/chat-request.ts";
import { checkFits } from "../../../engines/src/fit.ts";
import { readBody, readPlacedTexts, readSampling, type Body } from "../../../engines/src/requests.ts";

// Functions of the embedded engine, without a model.

const question = { role: "user", content: "hello" };
const after = (message: unknown): Body => ({ messages: [question, message] });
const calling = (text: unknown) => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "call_1", type: "function", function: { name: "clock", arguments: text } }],
});
const clock = { type: "function", function: { name: "clock" } };
const format = (more: object): Body => ({ response_format: more });

describe("a request that the embedded engine refuses", () => {
  const refused: readonly [string, (body: Body) => unknown, Body, RegExp][] = [
    ["two choices", readSampling, { n: 2 }, /one choice: n must be 1/],
    ["logprobs", readSampling, { logprobs: true }, /no logprobs/],
    ["a suffix", readSampling, { suffix: "b" }, /no suffix/],
    ["a temperature out of range", readSampling, { temperature: 2.1 }, /from 0 to 2/],
    ["a penalty out of range", readSampling, { presence_penalty: 3 }, /from -2 to 2/],
    ["a stop that is no text", readSampling, { stop: 5 }, /^stop must be a text or a list of texts/],
    ["a picture", readMessages, { messages: [{ ...question, content: [{ type: "image_url" }] }] }, /reads text only/],
    ["no messages", readMessages, {}, /messages must be a list/],
    ["an unknown role", readMessages, after({ role: "bogus", content: "a" }), /^messages\[1\]\.role must be/],
    ["no role", readMessages, after({ content: "a" }), /^messages\[1\]\.role must be/],
    ["a message that is no object", readMessages, after("a"), /^messages\[1\] must be an object/],
    ["a question without content", readMessages, after({ role: "user" }), /^messages\[1\]\.content is missing/],
    [
      "a question with content null",
      readMessages,
      after({ role: "user", content: null }),
      /^messages\[1\]\.content is missing/,
    ],
    [
      "a result that names no call",
      readMessages,
      after({ role: "tool", content: "a" }),
      /^messages\[1\]\.tool_call_id is missing/,
    ],
    [
      "a call with broken arguments",
      readMessages,
      after(calling('{"city":')),
      /^messages\[1\]\.tool_calls\[0\]\.function\.arguments is not JSON/,
    ],
    [
      "a choice of a tool that is not there",
      readToolUse,
      { tools: [clock], tool_choice: { type: "function", function: { name: "x" } } },
      /not among the tools/,
    ],
    ["a choice without tools", readToolUse, { tool_choice: "required" }, /tools is empty/],
    ["a tool that is no function", readToolUse, { tools: [{ type: "web_search" }] }, /calls functions only/],
    [
      "a function without a name",
      readToolUse,
      { tools: [{ type: "function", function: {} }] },
      /function\.name must be/,
    ],
    ["a format without its schema", readFormat, format({ type: "json_schema" }), /schema is missing/],
    ["an unknown format", readFormat, format({ type: "xml" }), /must be text, json_object or json_schema/],
    ["two formats", readFormat, { ...format({ type: "json_object" }), grammar: "root ::= [a]" }, /only one of/],
    ["no texts", ({ input }) => readPlacedTexts(input, "input"), { input: [] }, /^input is empty/],
    ["a list of tokens", ({ input }) => readPlacedTexts(input, "input"), { input: [1] }, /^input must be a text or/],
  ];
  for (const [name, read, body, message] of refused)
    it(name, () => assert.throws(() => read(body), { status: 400, message }));

  it("a body that holds too much to be parsed; but a long text is taken", () => {
    for (const value of [
      `[${"{},".repeat(100_000)}0]`,
      `{"a":${"[".repeat(300)}${"]".repeat(300)}}`,
      `[${'"\\\\",'.repeat(101_000)}0]`,
    ])
      assert.throws(() => readBody(`{"messages":${value}}`), { status: 400, message: /^the body holds too much/ });
    const text = `{"a": [${"[{,:".repeat(50_000)}\\"`;
    assert.deepEqual(readBody(JSON.stringify({ prompt: text })), { prompt: text });
  });

  it("megabytes, with the number of their tokens, while other requests go on", async () => {
    let [turns, isOver] = [0, false];
    const count = (): void => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    // Seven tokens for eight letters.
    const model = { tokenize: (text: string) => Array(Math.round((text.length * 7) / 8)).fill(0) };
    const checked = checkFits(model, "the and ".repeat(400_000), 512, new AbortController().signal);
    await assert.rejects(checked, { status: 400, message: /^request \(2800000 tokens\) exceeds .* \(512 tokens\)/ });
    isOver = true;
    assert.ok(turns > 5, `${turns} turns`);
  });
});

describe("a request that the embedded engine takes", () => {
  it("a call without arguments, and an answer without content", () => {
    for (const text of ["{}", "", undefined, {}]) {
      const [, called] = readMessages(after(calling(text)));
      assert.deepEqual(called?.tool_calls?.[0]?.function, { name: "clock", arguments: {} });
    }
    assert.equal(readMessages(after({ role: "assistant", content: null }))[1]?.content, "");
  });

  it("a developer message, as a system message", () => {
    assert.deepEqual(readMessages({ messages: [{ role: "developer", content: "be kind" }] }), [
      { role: "system", content: "be kind" },
    ]);
  });

  it("fields with values that request nothing", () => {
    const nothing = {
      n: 1,
      logprobs: false,
      logit_bias: {},
      stop: null,
      tools: [],
      tool_choice: "auto",
      response_format: { type: "text" },
      presence_penalty: 0,
      user: "somebody",
    };
    assert.deepEqual(readSampling(nothing).stop, []);
    assert.deepEqual(
      [readSampling(nothing).penalties, readToolUse(nothing), readFormat(nothing)],
      [undefined, undefined, undefined],
    );
  });
});
