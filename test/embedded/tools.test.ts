import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, callPieces, choice, events, joined, list, post, record } from "../support/openai.ts";
import { scriptedCall } from "../support/scripted-model.ts";
import { calls, startEngine } from "./engine.ts";

const here = {
  type: "function",
  function: { name: "get_weather", parameters: { type: "object", properties: { city: { enum: ["here"] } } } },
};
const messages = [{ role: "user", content: "What is the weather?" }];
const chat = { messages, max_tokens: 200, temperature: 0 };
const once = { ...chat, tools: [here], parallel_tool_calls: false };

test("a model that calls tools by itself", async (t) => {
  await using engine = await startEngine("tool caller");

  await t.test("the model's call is removed from the text", async () => {
    const body = await ask(engine.url, "/v1/chat/completions", once);
    assert.deepEqual(calls(body), [{ name: scriptedCall.name, input: scriptedCall.arguments }]);
    assert.equal(choice(body)["finish_reason"], "tool_calls");
    assert.equal(record(choice(body)["message"])["content"], null);
    assert.match(String(list(record(choice(body)["message"])["tool_calls"])[0]?.["id"]), /^call_[0-9a-f]{32}$/);
  });

  await t.test("a streamed call has the name first, then the arguments in pieces", async () => {
    const asked = { ...once, stream: true, stream_options: { include_usage: true } };
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
});
