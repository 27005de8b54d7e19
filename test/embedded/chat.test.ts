import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, choice, events, joined, post, record } from "../support/openai.ts";
import { refusal, startEngine } from "./engine.ts";

const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 5, temperature: 0 };

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

  await t.test("each of two chats that take turns, or come at once, is answered as if it were alone", async () => {
    const other = { ...chat, messages: [{ role: "user", content: "hello there" }] };
    const alone = [await say(chat), await say(other)];
    for (let turn = 0; turn < 2; turn++) assert.deepEqual([await say(chat), await say(other)], alone);
    assert.deepEqual(await Promise.all([say(chat), say(other)]), alone);
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

  const long = (count: number): object => ({ messages: [{ role: "user", content: "the and ".repeat(count) }] });
  const tooLong = /^400 request \(\d+ tokens\) exceeds the available context size \(512 tokens\), try increasing it$/;
  const refused: readonly [string, string, object, RegExp][] = [
    ["what the context cannot hold", "/v1/chat/completions", long(600), tooLong],
    ["megabytes", "/v1/chat/completions", long(200_000), tooLong],
    ["a field that it would ignore", "/v1/chat/completions", { ...chat, n: 2 }, /^400 .*one choice: n must be 1/],
    ["two prompts", "/v1/completions", { prompt: ["a", "b"] }, /^400 .*one prompt per request/],
    ["messages", "/v1/messages", {}, /^501 the embedded engine has no \/v1\/messages/],
    ["embeddings of a chat model", "/v1/embeddings", { input: "a" }, /^501 .*started for chat/],
    ["an unknown route", "/v2/chat", {}, /^404 there is no \/v2\/chat/],
  ];
  for (const [name, path, body, message] of refused)
    await t.test(`refused: ${name}`, async () => assert.match(await refusal(engine.url, path, body), message));
});
