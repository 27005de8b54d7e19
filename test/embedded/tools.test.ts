import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, callPieces, choice, events, joined, list, post, record } from "../support/openai.ts";
import { scriptedCall } from "../support/scripted-model.ts";
import { startEngine } from "./engine.ts";

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: {
        city: { enum: ["here"] },
        unit: { enum: ["c", "f"] },
        days: { type: "array", items: { enum: [1, 2] }, maxItems: 2 },
      },
      required: ["city"],
    },
  },
};
const here = {
  type: "function",
  function: { name: "get_weather", parameters: { type: "object", properties: { city: { enum: ["here"] } } } },
};
const clock = { type: "function", function: { name: "clock" } };
const messages = [{ role: "user", content: "What is the weather?" }];
const chat = { messages, max_tokens: 200, temperature: 0 };

function calls(body: Record<string, unknown>): { name: unknown; input: unknown }[] {
  return list(record(choice(body)["message"])["tool_calls"]).map(({ function: called }) => {
    const { name, arguments: text } = record(called);
    return { name, input: JSON.parse(String(text)) };
  });
}

test("a model that calls tools by itself", async (t) => {
  await using engine = await startEngine("tool caller");

  await t.test("the model's call is removed from the text", async () => {
    const body = await ask(engine.url, "/v1/chat/completions", {
      ...chat,
      tools: [here],
      parallel_tool_calls: false,
    });
    assert.deepEqual(calls(body), [{ name: scriptedCall.name, input: scriptedCall.arguments }]);
    assert.equal(choice(body)["finish_reason"], "tool_calls");
    assert.equal(record(choice(body)["message"])["content"], null);
    assert.match(String(list(record(choice(body)["message"])["tool_calls"])[0]?.["id"]), /^call_[0-9a-f]{32}$/);
  });

  await t.test("a streamed call has the name first, then the arguments in pieces", async () => {
    const asked = {
      ...chat,
      tools: [here],
      parallel_tool_calls: false,
      stream: true,
      stream_options: { include_usage: true },
    };
    const { chunks, isDone } = await events(await post(engine.url, "/v1/chat/completions", asked));
    assert.ok(isDone);
    const pieces = callPieces(chunks);
    assert.deepEqual(pieces[0], { name: scriptedCall.name, arguments: "" });
    assert.ok(pieces.length > 2);
    assert.deepEqual(JSON.parse(joined(pieces, "arguments")), scriptedCall.arguments);
    const reasons = chunks.flatMap((chunk) => list(chunk["choices"]).map(({ finish_reason: reason }) => reason));
    assert.equal(reasons.at(-1), "tool_calls");
    assert.ok(Number(record(chunks.at(-1)?.["usage"])["completion_tokens"]) > 0);
  });

  await t.test("several calls have ids of their own", async () => {
    const body = await ask(engine.url, "/v1/chat/completions", { ...chat, tools: [here] });
    const ids = list(record(choice(body)["message"])["tool_calls"]).map(({ id }) => id);
    assert.ok(ids.length > 1);
    assert.equal(new Set(ids).size, ids.length);
  });

  await t.test("with tool_choice none the call is only text", async () => {
    const body = await ask(engine.url, "/v1/chat/completions", { ...chat, tools: [here], tool_choice: "none" });
    assert.match(String(record(choice(body)["message"])["content"]), /<tool_call>/);
  });

  await t.test("a chat continues after the results of calls", async () => {
    const asked = [
      ...messages,
      {
        role: "assistant",
        content: null,
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"here"}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: "rain" },
    ];
    const body = await ask(engine.url, "/v1/chat/completions", {
      ...chat,
      messages: asked,
      tools: [here],
      parallel_tool_calls: false,
    });
    assert.deepEqual(calls(body), [{ name: scriptedCall.name, input: scriptedCall.arguments }]);
    const plain = await ask(engine.url, "/v1/chat/completions", { ...chat, messages: asked });
    assert.ok(Number(record(plain["usage"])["prompt_tokens"]) > 40, "the template has seen call and result");
  });

  await t.test("a limit that cuts a call is named", async () => {
    const body = await ask(engine.url, "/v1/chat/completions", { ...chat, tools: [here], max_tokens: 8 });
    assert.equal(choice(body)["finish_reason"], "length");
  });
});

test("a model of noise that must call a tool", async (t) => {
  await using engine = await startEngine({});

  await t.test("calls one of them, with arguments that fit its parameters", async () => {
    for (const temperature of [0, 1, 2]) {
      const asked = { ...chat, temperature, seed: 1, tools: [weather, clock], tool_choice: "required" };
      const [call, ...more] = calls(await ask(engine.url, "/v1/chat/completions", asked));
      assert.deepEqual(more, []);
      if (call?.name === "clock") assert.deepEqual(call.input, {});
      else {
        assert.equal(call?.name, "get_weather");
        const input = record(call.input);
        assert.equal(input["city"], "here");
        assert.ok(input["unit"] === "c" || input["unit"] === "f");
        assert.ok(Array.isArray(input["days"]) && input["days"].every((day) => day === 1 || day === 2));
      }
    }
  });

  await t.test("calls the named tool", async () => {
    const named = { type: "function", function: { name: "get_weather" } };
    const body = await ask(engine.url, "/v1/chat/completions", {
      ...chat,
      tools: [clock, weather],
      tool_choice: named,
    });
    assert.equal(calls(body)[0]?.name, "get_weather");
  });

  await t.test("takes a schema that no grammar can hold, with any value in such a place", async () => {
    const parameters = {
      type: "object",
      properties: {
        city: { enum: ["here"] },
        url: { $ref: "https://example.com/url.json" },
        when: { type: "string", not: { const: "never" }, pattern: "^(?!x)" },
      },
      allOf: [],
      if: { required: ["url"] },
    };
    const tools = ["strict", "loose"].map((name) => ({
      type: "function",
      function: {
        name,
        strict: name === "strict",
        parameters: name === "strict" ? { ...parameters, if: undefined, allOf: undefined } : parameters,
      },
    }));
    const response = await post(engine.url, "/v1/chat/completions", {
      ...chat,
      max_tokens: 40,
      tools,
      tool_choice: "required",
    });
    assert.equal(response.status, 200, await response.clone().text());
    assert.match(JSON.stringify(await response.json()), /"name":"(?:strict|loose)"/);
  });

  const refused: readonly [string, object, RegExp][] = [
    [
      "a choice that is not there",
      { tools: [clock], tool_choice: { type: "function", function: { name: "x" } } },
      /not among the tools/,
    ],
    ["a choice without tools", { tool_choice: "required" }, /tools is empty/],
    ["a tool that is no function", { tools: [{ type: "web_search" }] }, /calls functions only/],
    ["a function without a name", { tools: [{ type: "function", function: {} }] }, /function\.name must be/],
    ["a format beside tools", { tools: [clock], response_format: { type: "json_object" } }, /not both/],
    [
      "a result without its call",
      { tools: [clock], messages: [{ role: "tool", tool_call_id: "call_1", content: "x" }] },
      /must follow the call/,
    ],
    [
      "a prompt beyond the context",
      { tools: [clock], messages: [{ role: "user", content: "the ".repeat(3000) }] },
      /^request \(\d+ tokens\) exceeds the available context size \(\d+ tokens\)/,
    ],
  ];
  for (const [name, body, message] of refused) {
    await t.test(`refused: ${name}`, async () => {
      const response = await post(engine.url, "/v1/chat/completions", { ...chat, ...body });
      assert.equal(response.status, 400);
      assert.match(String(record(record(await response.json())["error"])["message"]), message);
    });
  }

  await t.test("a client that leaves frees its place", async () => {
    const leaving = new AbortController();
    const response = await fetch(`${engine.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...chat, max_tokens: 1500, stream: true, tools: [weather] }),
      signal: leaving.signal,
    });
    await response.body?.getReader().read();
    leaving.abort();
    await ask(engine.url, "/v1/chat/completions", { ...chat, max_tokens: 1, tools: [weather] });
  });
});
