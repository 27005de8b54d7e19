import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { ask } from "../support/openai.ts";
import { until } from "../support/until.ts";
import { startWithLlamaServer } from "./fixture.ts";

test("llama-server does not read a prompt to its end whose client has left the gateway", async () => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    // Its layers are wide enough, and the prompt long enough, that reading takes many times as long as llama-server's looks at
    // its clients, once a second, also on a fast machine.
    await writeTinyModel(join(modelsDir, "wide.gguf"), { hollow: 28_000, contextLength: 16_384 });
    await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "wide"\n');
  });
  await berth.state("primary", "ready");
  const log = async (): Promise<string> =>
    await (await fetch(new URL("/api/slots/primary/logs?tail=1000", berth.url))).text();
  const asked = (content: string): object => ({
    model: "primary",
    messages: [{ role: "user", content }],
    max_tokens: 1,
  });
  const client = new AbortController();
  const abandoned = fetch(new URL("/v1/chat/completions", berth.url), {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(asked("her and ".repeat(2000))),
    signal: client.signal,
  });
  // Its log has the number of tokens of each prompt, and how many were read when its work ended.
  const found = async (line: RegExp): Promise<RegExpExecArray | undefined> => line.exec(await log()) ?? undefined;
  const prompt = /task (\d+) \| new prompt, .*task\.n_tokens = (\d{4,})$/m;
  const [, task = "", tokens] = await until("it reads the prompt", async () => await found(prompt));
  client.abort();
  await assert.rejects(abandoned, { name: "AbortError" });
  await ask(berth.url, "/v1/chat/completions", asked("hello"));
  const end = new RegExp(String.raw`task ${task} \| stop processing: n_tokens = (\d+)`);
  const [, read] = await until("its work has ended", async () => await found(end));
  assert.ok(Number(read) < Number(tokens), `${read} of ${tokens} tokens were read`);
});
