import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, choice, events, joined, post, record } from "../support/openai.ts";
import { startEngine } from "./engine.ts";

const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 5, temperature: 0 };
const after = (message: unknown): object => ({ ...chat, messages: [...chat.messages, message] });
const calling = (text: unknown): object => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "call_1", type: "function", function: { name: "clock", arguments: text } }],
});

test("the embedded engine answers chats and completions", async (t) => {
  await using engine = await startEngine({}, "--ctx-size", "1024", "--parallel", "2");
  const say = async (body: object): Promise<unknown> =>
    record(choice(await ask(engine.url, "/v1/chat/completions", body))["message"])["content"];

  await t.test("a stream has the same text as a whole answer, and its usage when requested", async () => {
    const whole = await ask(engine.url, "/v1/chat/completions", chat);
    const streamed = { ...chat, stream: true, stream_options: { include_usage: true } };
    const { chunks, isDone } = await events(await post(engine.url, "/v1/chat/completions", streamed));
    assert.ok(isDone);
    const last = chunks.at(-1);
    assert.deepEqual(last?.["choices"], []);
    assert.deepEqual(last["usage"], whole["usage"]);
    const deltas = chunks.slice(0, -1).map((chunk) => record(choice(chunk)["delta"]));
    assert.equal(joined(deltas, "content"), record(choice(whole)["message"])["content"]);
    const { chunks: plain } = await events(await post(engine.url, "/v1/chat/completions", { ...chat, stream: true }));
    assert.ok(plain.every((chunk) => !("usage" in chunk)));
  });

  await t.test("an earlier request in the same place changes no answer", async () => {
    const first = await say(chat);
    await say({ ...chat, messages: [{ role: "user", content: "hello there" }] });
    const [again, beside] = await Promise.all([say(chat), say(chat)]);
    assert.equal(again, first);
    assert.equal(beside, first);
  });

  await t.test("a seed repeats an answer; without one, answers differ within one second", async () => {
    const free = { ...chat, temperature: 2, max_tokens: 20 };
    assert.equal(await say({ ...free, seed: 7 }), await say({ ...free, seed: 7 }));
    assert.notEqual(await say(free), await say(free));
  });

  await t.test("a long answer keeps its spaces: one word per token", async () => {
    const words = String(await say({ ...chat, max_tokens: 150 })).split(" ");
    assert.equal(words.length, 150);
    assert.ok(
      words.every((word) => /^[a-z]+$/i.test(word)),
      words.join("|"),
    );
  });

  await t.test("each of two chats that take turns is answered as if it were alone", async () => {
    const other = { ...chat, messages: [{ role: "user", content: "good day" }] };
    const alone = [await say(chat), await say(other)];
    for (let turn = 0; turn < 3; turn++) assert.deepEqual([await say(chat), await say(other)], alone);
  });

  await t.test("a developer message counts as a system message", async () => {
    const told = (role: string): object => ({ ...chat, messages: [{ role, content: "be kind" }, ...chat.messages] });
    assert.equal(await say(told("developer")), await say(told("system")));
  });

  await t.test("penalties reach the sampler", async () => {
    const words = (text: unknown): number => new Set(String(text).split(" ")).size;
    const plain = await say({ ...chat, max_tokens: 40 });
    const varied = await say({ ...chat, max_tokens: 40, presence_penalty: 2, frequency_penalty: 2 });
    assert.ok(words(varied) > words(plain), `${String(plain)} / ${String(varied)}`);
  });

  await t.test("what the model's context cannot hold is refused", async () => {
    const long = { ...chat, messages: [{ role: "user", content: "the and ".repeat(600) }] };
    const response = await post(engine.url, "/v1/chat/completions", long);
    assert.equal(response.status, 400);
    assert.match(
      String(record(record(await response.json())["error"])["message"]),
      /^request \(\d+ tokens\) exceeds the available context size \(512 tokens\), try increasing it$/,
    );
  });

  await t.test("megabytes are refused with their number of tokens, and hold up nobody", async () => {
    const content = "the and ".repeat(400_000);
    const bodies: readonly [string, object][] = [
      ["/v1/chat/completions", { ...chat, messages: [{ role: "user", content }] }],
      ["/v1/completions", { prompt: content, max_tokens: 5 }],
    ];
    for (const [path, body] of bodies) {
      const response = await post(engine.url, path, body);
      assert.equal(response.status, 400);
      const message = String(record(record(await response.json())["error"])["message"]);
      const [, tokens] = /^request \((\d+) tokens\) exceeds/.exec(message) ?? [];
      // Seven tokens for eight letters, the template's included.
      assert.ok(Math.abs(Number(tokens) - 2_800_000) < 10_000, message);
    }
    assert.equal((await fetch(`${engine.url}/health`)).status, 200);
  });

  await t.test("a completion reads special tokens, and max_tokens may be without limit", async () => {
    const prompt = "</s>".repeat(10);
    const { usage } = await ask(engine.url, "/v1/completions", { prompt, max_tokens: 1 });
    assert.equal(record(usage)["prompt_tokens"], 11, "with the token that begins every text");
    const free = { prompt: "the and ".repeat(71), max_tokens: -1, temperature: 0 };
    const whole = await ask(engine.url, "/v1/completions", free);
    const { prompt_tokens: read, total_tokens: all } = record(whole["usage"]);
    assert.ok(Number(read) > 490);
    // The last token of an answer is not read.
    if (choice(whole)["finish_reason"] === "length") assert.equal(all, 512);
  });

  const refused: readonly [string, string, object, number, RegExp][] = [
    ["two choices", "/v1/chat/completions", { ...chat, n: 2 }, 400, /one choice: n must be 1/],
    ["logprobs", "/v1/chat/completions", { ...chat, logprobs: true }, 400, /no logprobs/],
    [
      "a picture",
      "/v1/chat/completions",
      { messages: [{ role: "user", content: [{ type: "image_url" }] }] },
      400,
      /reads text only/,
    ],
    ["no messages", "/v1/chat/completions", {}, 400, /messages must be a list/],
    ["a temperature out of range", "/v1/chat/completions", { ...chat, temperature: 2.1 }, 400, /from 0 to 2/],
    [
      "an unknown role",
      "/v1/chat/completions",
      after({ role: "bogus", content: "a" }),
      400,
      /^messages\[1\]\.role must be/,
    ],
    ["no role", "/v1/chat/completions", after({ content: "a" }), 400, /^messages\[1\]\.role must be/],
    ["a message that is no object", "/v1/chat/completions", after("a"), 400, /^messages\[1\] must be an object/],
    [
      "a question without content",
      "/v1/chat/completions",
      after({ role: "user" }),
      400,
      /^messages\[1\]\.content is missing/,
    ],
    [
      "a question with content null",
      "/v1/chat/completions",
      after({ role: "user", content: null }),
      400,
      /^messages\[1\]\.content is missing/,
    ],
    [
      "a result that names no call",
      "/v1/chat/completions",
      after({ role: "tool", content: "a" }),
      400,
      /^messages\[1\]\.tool_call_id is missing/,
    ],
    [
      "a call with broken arguments",
      "/v1/chat/completions",
      after(calling('{"city":')),
      400,
      /^messages\[1\]\.tool_calls\[0\]\.function\.arguments is not JSON/,
    ],
    ["two prompts", "/v1/completions", { prompt: ["a", "b"] }, 400, /one prompt per request/],
    ["a suffix", "/v1/completions", { prompt: "a", suffix: "b" }, 400, /no suffix/],
    ["a penalty out of range", "/v1/completions", { prompt: "a", presence_penalty: 3 }, 400, /from -2 to 2/],
    ["messages", "/v1/messages", {}, 501, /the embedded engine has no \/v1\/messages/],
    ["responses", "/v1/responses", {}, 501, /the embedded engine has no \/v1\/responses/],
    ["embeddings of a chat model", "/v1/embeddings", { input: "a" }, 501, /started for chat/],
    ["an unknown route", "/v2/chat", {}, 404, /there is no \/v2\/chat/],
  ];
  for (const [name, path, body, status, message] of refused) {
    await t.test(`refused: ${name}`, async () => {
      const response = await post(engine.url, path, body);
      assert.equal(response.status, status);
      assert.match(String(record(record(await response.json())["error"])["message"]), message);
    });
  }

  await t.test("a call may have no arguments, an answer no content", async () => {
    for (const text of ["{}", "", undefined, {}]) {
      const result = { role: "tool", tool_call_id: "call_1", content: "noon" };
      await ask(engine.url, "/v1/chat/completions", { ...chat, messages: [...chat.messages, calling(text), result] });
    }
    await ask(engine.url, "/v1/chat/completions", after({ role: "assistant", content: null }));
  });

  await t.test("fields with values that request nothing are accepted", async () => {
    await ask(engine.url, "/v1/chat/completions", {
      ...chat,
      n: 1,
      logprobs: false,
      logit_bias: {},
      stop: null,
      tools: [],
      tool_choice: "auto",
      response_format: { type: "text" },
      presence_penalty: 0,
      user: "somebody",
    });
  });
});
