import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, choice, events, joined, post } from "../support/openai.ts";
import { startEngine } from "./engine.ts";

/** What the model says after a colon, word for word, and then ends. */
const says = ["un", " deux", " trois", " quatre", " cinq"];
const completion = { prompt: "count:", max_tokens: 50, temperature: 0 };

test("the embedded engine stops at the requested place", async (t) => {
  await using engine = await startEngine({ says }, "--ctx-size", "512");

  const rows: readonly (readonly [what: string, more: object, text: string, reason: string])[] = [
    ["nowhere: the model ends by itself", {}, "un deux trois quatre cinq", "stop"],
    ["at the limit", { max_tokens: 2 }, "un deux", "length"],
    ["at a word", { stop: " trois" }, "un deux", "stop"],
    ["at a word's end, which is told with neither", { stop: "eux t" }, "un d", "stop"],
    ["at the first of several", { stop: ["cinq", "quatre", "never"] }, "un deux trois ", "stop"],
    ["at the very beginning", { stop: "un" }, "", "stop"],
    ["at what never comes, though its beginning does", { stop: "cinq six" }, "un deux trois quatre cinq", "stop"],
    ["at nothing", { stop: ["", "quatre"] }, "un deux trois ", "stop"],
  ];
  for (const [what, more, text, reason] of rows) {
    await t.test(what, async () => {
      const whole = choice(await ask(engine.url, "/v1/completions", { ...completion, ...more }));
      assert.deepEqual([whole["text"], whole["finish_reason"]], [text, reason]);
      const streamed = await events(
        await post(engine.url, "/v1/completions", { ...completion, ...more, stream: true }),
      );
      assert.ok(streamed.isDone);
      const choices = streamed.chunks.map(choice);
      assert.equal(joined(choices, "text"), text, "no piece of what it stops at is sent");
      assert.deepEqual(
        choices.map((each) => each["finish_reason"]).filter((each) => each !== null),
        [reason],
      );
    });
  }

  await t.test("in a chat too, whole and streamed", async () => {
    const chat = { messages: [{ role: "user", content: "count" }], max_tokens: 50, temperature: 0, stop: [" quatre"] };
    const whole = choice(await ask(engine.url, "/v1/chat/completions", chat));
    assert.deepEqual(whole["message"], { role: "assistant", content: "un deux trois" });
    assert.equal(whole["finish_reason"], "stop");
    const { chunks } = await events(await post(engine.url, "/v1/chat/completions", { ...chat, stream: true }));
    const deltas = chunks.map((chunk) => choice(chunk)["delta"]).filter((delta) => typeof delta === "object");
    assert.equal(
      deltas.map((delta) => (delta && "content" in delta ? String(delta.content) : "")).join(""),
      "un deux trois",
    );
  });

  await t.test("an invalid stop text is refused", async () => {
    const response = await post(engine.url, "/v1/completions", { ...completion, stop: 5 });
    assert.equal(response.status, 400);
    assert.match(await response.text(), /stop must be a text or a list of texts/);
  });
});
