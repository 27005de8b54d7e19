import assert from "node:assert/strict";
import { test } from "node:test";
import { post } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { launchEngine, refusal } from "./engine.ts";

const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 1 };

test("while the embedded engine loads it listens and answers 503, and 200 from then on; a context above the model's own is logged", async () => {
  // Large enough to be seen loading; most of it is a hole in the file.
  await using engine = await launchEngine({ hollow: 400_000 }, "--ctx-size", "9000", "--parallel", "2");
  const statuses: number[] = [];
  await until("it has loaded", async () => {
    const status = await engine.health();
    if (statuses.at(-1) !== status) statuses.push(status);
    if (status === 200) return true;
    // The engine may have loaded between the look at its health and the chat.
    const answer = await post(engine.url, "/v1/chat/completions", chat);
    assert.ok(answer.status === 200 || (answer.status === 503 && (await answer.text()).includes("Loading model")));
    return false;
  });
  assert.deepEqual(statuses, [503, 200], engine.log());
  assert.match(
    engine.log(),
    /--ctx-size gives each request 4500 tokens, and the model was made for 2048: each gets 2048/,
  );
});

test("only a client with the key is answered, and another one learns only that the engine is well", async () => {
  await using engine = await launchEngine({}, { key: "the-key" });
  await until("it has loaded", async () => (await engine.health()) === 200);
  assert.match(await refusal(engine.url, "/v1/chat/completions", chat), /^401 the API key is missing or wrong/);
  const response = await fetch(`${engine.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer the-key" },
    body: JSON.stringify(chat),
  });
  assert.equal(response.status, 200);
});
