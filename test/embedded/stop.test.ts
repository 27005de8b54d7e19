import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, choice, events, joined, post } from "../support/openai.ts";
import { startEngine } from "./engine.ts";

/** The words of the scripted model, after which it ends. */
const says = ["un", " deux", " trois", " quatre", " cinq"];
const completion = { prompt: "count:", max_tokens: 50, temperature: 0 };

function ending(choice: Record<string, unknown>): unknown[] {
  return [choice["finish_reason"], choice["stop_reason"]];
}

test("the embedded engine stops at the requested place", async (t) => {
  await using engine = await startEngine({ says }, "--ctx-size", "2048");

  const rows: readonly (readonly [what: string, more: object, text: string, reason: string, stop?: string])[] = [
    ["nowhere: the model ends by itself", {}, "un deux trois quatre cinq", "stop"],
    ["at the limit", { max_tokens: 2 }, "un deux", "length"],
    ["at a word", { stop: " trois" }, "un deux", "stop", " trois"],
    ["at a word's end, which is told with neither", { stop: "eux t" }, "un d", "stop", "eux t"],
    ["at the first of several", { stop: ["cinq", "quatre", "never"] }, "un deux trois ", "stop", "quatre"],
    ["at several that begin together", { stop: ["trois q", " trois", " tro"] }, "un deux", "stop", " trois"],
    ["at the very beginning", { stop: "un" }, "", "stop", "un"],
    ["at what never comes, though its beginning does", { stop: "cinq six" }, "un deux trois quatre cinq", "stop"],
    ["at nothing", { stop: ["", "quatre"] }, "un deux trois ", "stop", "quatre"],
  ];
  for (const [what, more, text, reason, stop] of rows) {
    await t.test(what, async () => {
      const whole = choice(await ask(engine.url, "/v1/completions", { ...completion, ...more }));
      assert.deepEqual([whole["text"], whole["finish_reason"], whole["stop_reason"]], [text, reason, stop]);
      const streamed = await events(
        await post(engine.url, "/v1/completions", { ...completion, ...more, stream: true }),
      );
      assert.ok(streamed.isDone);
      const choices = streamed.chunks.map(choice);
      assert.equal(joined(choices, "text"), text, "no piece of what it stops at is sent");
      assert.deepEqual(choices.filter((each) => each["finish_reason"] !== null).map(ending), [[reason, stop]]);
    });
  }

  await t.test("in a chat too, whole and streamed", async () => {
    const chat = { messages: [{ role: "user", content: "count" }], max_tokens: 50, temperature: 0, stop: [" quatre"] };
    const whole = choice(await ask(engine.url, "/v1/chat/completions", chat));
    assert.deepEqual(whole["message"], { role: "assistant", content: "un deux trois" });
    assert.deepEqual(ending(whole), ["stop", " quatre"]);
    const { chunks } = await events(await post(engine.url, "/v1/chat/completions", { ...chat, stream: true }));
    const deltas = chunks.map((chunk) => choice(chunk)["delta"]).filter((delta) => typeof delta === "object");
    assert.equal(
      deltas.map((delta) => (delta && "content" in delta ? String(delta.content) : "")).join(""),
      "un deux trois",
    );
    assert.deepEqual(ending(choice(chunks.at(-1) ?? {})), ["stop", " quatre"]);
  });

  await t.test("beside tools too, whole and streamed", async () => {
    const tools = [{ type: "function", function: { name: "clock" } }];
    const chat = { messages: [{ role: "user", content: "count" }], max_tokens: 50, temperature: 0, tools };
    for (const [stop, text, end] of [
      ["cinq", "un deux trois quatre ", ["stop", "cinq"]],
      ["never", "un deux trois quatre cinq", ["stop", undefined]],
    ] as const) {
      const whole = choice(await ask(engine.url, "/v1/chat/completions", { ...chat, stop }));
      assert.deepEqual([whole["message"], ending(whole)], [{ role: "assistant", content: text }, end]);
      const { chunks } = await events(await post(engine.url, "/v1/chat/completions", { ...chat, stop, stream: true }));
      assert.deepEqual(ending(choice(chunks.at(-1) ?? {})), end);
    }
  });

  await t.test("an invalid stop text is refused", async () => {
    const response = await post(engine.url, "/v1/completions", { ...completion, stop: 5 });
    assert.equal(response.status, 400);
    assert.match(await response.text(), /stop must be a text or a list of texts/);
  });
});

test("a model without a chat template ends where it begins to speak for the user, and the log says that it has none", async () => {
  await using engine = await startEngine({ says: ["un", " deux", "\nuser:", " trois"], chatTemplate: null });
  const chat = { messages: [{ role: "user", content: "count" }], max_tokens: 50, temperature: 0 };
  const whole = choice(await ask(engine.url, "/v1/chat/completions", chat));
  assert.deepEqual(whole["message"], { role: "assistant", content: "un deux" });
  assert.deepEqual(ending(whole), ["stop", undefined]);
  const completion = choice(await ask(engine.url, "/v1/completions", { prompt: "count:", temperature: 0 }));
  assert.equal(completion["text"], "un deux\nuser: trois", "a completion is no chat");
  assert.match(engine.log(), /the model's file has no chat template/);
});
