import assert from "node:assert/strict";
import { test } from "node:test";
import { firstAnswer, firstModel } from "../../hack/first-model.ts";
import { ask, choice, events, joined, list, post, record } from "../support/openai.ts";
import { startEngine } from "./engine.ts";

test("the first model answers in one friendly sentence, word by word", async (t) => {
  await using engine = await startEngine(firstModel, "--ctx-size", "512");
  const user = (content: string): object => ({ role: "user", content });
  const said = { role: "assistant", content: firstAnswer };
  const long = Array.from({ length: 20 }, () => [user("Are you there?"), said]).flat();
  for (const [name, body] of [
    ["a question", { messages: [user("Tell me something")] }],
    ["words of the answer itself", { messages: [user("Hello from Berth! Which model are you?")] }],
    ["another language", { messages: [user("¿Qué eres? 你好 🙂")] }],
    ["nothing", { messages: [user("")] }],
    [
      "a system prompt and a hot temperature",
      { messages: [{ role: "system", content: "Be brief" }, user("hi")], temperature: 1.5 },
    ],
    ["the end of a conversation longer than its context", { messages: [...long, user("And now?")] }],
  ] as const)
    await t.test(`asked: ${name}`, async () => {
      const answer = choice(await ask(engine.url, "/v1/chat/completions", body));
      assert.deepEqual([record(answer["message"])["content"], answer["finish_reason"]], [firstAnswer, "stop"]);
    });

  await t.test("a completion has the same answer", async () => {
    const answer = await ask(engine.url, "/v1/completions", { prompt: "Once upon a time there was" });
    assert.equal(String(choice(answer)["text"]).trim(), firstAnswer);
  });

  await t.test("a stream brings it in words", async () => {
    const body = { messages: [user("Tell me something")], stream: true };
    const { chunks } = await events(await post(engine.url, "/v1/chat/completions", body));
    const deltas = chunks.flatMap((chunk) => list(chunk["choices"]).map(({ delta }) => record(delta)));
    assert.equal(joined(deltas, "content"), firstAnswer);
    assert.ok(deltas.filter(({ content }) => typeof content === "string" && content !== "").length > 30);
  });
});
