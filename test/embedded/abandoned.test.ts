import assert from "node:assert/strict";
import { test } from "node:test";
import { cpuSeconds } from "../bench/machine/cpu.ts";
import { ask, record } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { startEngine } from "./engine.ts";

/** About 1400 tokens: with the words about tools, most of the model's context. */
const long = (word: string): string => `${word} and `.repeat(200);
const asked = (content: string): object => ({ messages: [{ role: "user", content }], max_tokens: 1 });
const tools = [{ type: "function", function: { name: "clock" } }];

test("an abandoned prompt is not read to its end: the next request has the engine", async (t) => {
  // Its layers are wide enough that reading takes longer than noticing that a client has left.
  await using engine = await startEngine({ hollow: 14_000 });
  // The first chat with tools finds out how the model is told of them, which takes as long as a prompt.
  await ask(engine.url, "/v1/chat/completions", { ...asked("hello"), tools });
  const before = cpuSeconds(engine.pid);
  const { usage } = await ask(engine.url, "/v1/chat/completions", asked(long("the")));
  const wholeSeconds = cpuSeconds(engine.pid) - before;
  assert.ok(Number(record(usage)["prompt_tokens"]) > 1300);

  const rows: readonly [name: string, body: object][] = [
    ["a stream", { ...asked(long("her")), stream: true }],
    ["a chat with tools", { ...asked(long("all")), tools }],
  ];
  for (const [name, body] of rows) {
    await t.test(name, async () => {
      const start = cpuSeconds(engine.pid);
      const client = new AbortController();
      const abandoned = fetch(`${engine.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: client.signal,
      });
      await until("the engine reads", () => cpuSeconds(engine.pid) - start > wholeSeconds / 10);
      client.abort();
      await assert.rejects(abandoned, { name: "AbortError" });
      await ask(engine.url, "/v1/chat/completions", asked("hello"));
      const seconds = cpuSeconds(engine.pid) - start;
      assert.ok(seconds < wholeSeconds * 0.7, `${seconds} s of CPU, of ${wholeSeconds} s for the whole prompt`);
    });
  }
});
