import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth } from "../support/berth.ts";
import { ask, events, list, post, record } from "../support/openai.ts";
import { readPublished } from "../support/published.ts";
import { writeToolCaller } from "../support/scripted-model.ts";
import { tempDir } from "../support/temp-dir.ts";
import { embeddedProgram } from "./engine.ts";

const messages = [{ role: "user", content: "hello" }];

test("the gateway translates or refuses requests that the embedded engine does not support", async (t) => {
  await using berth = await startBerth({
    prepare: async ({ configDir, modelsDir }) => {
      await writeToolCaller(join(modelsDir, "caller.gguf"));
      await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
      await writeTinyModel(join(modelsDir, "ranker.gguf"), { ranker: true, name: "ranker" });
      await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "caller"\n');
      await writeFile(join(configDir, "slots/embed.toml"), '[model]\ndefault = "tiny-embed"\nrerank = "ranker"\n');
    },
  });
  const slot = await berth.state("primary", "ready");
  assert.deepEqual(slot["capabilities"], ["chat", "completions", "messages", "responses"]);
  assert.deepEqual((await readPublished(berth.stateDir, "primary"))?.status.protocols, []);

  await t.test("grammars and schemas that would end the engine are refused, and the engine keeps running", async () => {
    const engines = JSON.stringify((await berth.slot("primary"))["processes"]);
    const doubled = Array.from({ length: 40 }, (_, index) => `x${index} ::= x${index + 1} x${index + 1}`).join("\n");
    for (const grammar of [
      `root ::= ${"(".repeat(100_000)}"a"${")".repeat(100_000)}`,
      `root ::= x0\n${doubled}\nx40 ::= "a"?`,
      `root ::= ${Array(50_000).fill('"a"').join(" | ")}`,
    ]) {
      const response = await post(berth.url, "/v1/chat/completions", { model: "primary", messages, grammar });
      assert.equal(response.status, 400);
      assert.match(await response.text(), /dispatch\.invalid_request.*grammar: /);
    }
    await ask(berth.url, "/v1/chat/completions", { model: "primary", messages, max_tokens: 1 });
    assert.equal(JSON.stringify((await berth.slot("primary"))["processes"]), engines);
  });

  await t.test("messages with a tool become a chat with a tool, and back", async () => {
    const schema = { type: "object", properties: { city: { enum: ["here"] } }, required: ["city"] };
    const asked = {
      model: "primary",
      messages,
      max_tokens: 200,
      temperature: 0,
      tools: [{ name: "get_weather", description: "Weather", input_schema: schema }],
      tool_choice: { type: "any" },
    };
    const body = await ask(berth.url, "/v1/messages", asked);
    assert.equal(body["model"], "primary");
    assert.equal(body["stop_reason"], "tool_use");
    const [used] = list(body["content"]).filter(({ type }) => type === "tool_use");
    assert.equal(used?.["name"], "get_weather");
    assert.deepEqual(used["input"], { city: "here" });
    const { chunks } = await events(await post(berth.url, "/v1/messages", { ...asked, stream: true }));
    assert.deepEqual([chunks[0]?.["type"], chunks.at(-1)?.["type"]], ["message_start", "message_stop"]);
  });

  await t.test("messages name the stop sequence that ended the answer", async () => {
    const asked = { model: "primary", messages, max_tokens: 200, temperature: 0, stop_sequences: ["never", "weather"] };
    const end = { stop_reason: "stop_sequence", stop_sequence: "weather" };
    const whole = await ask(berth.url, "/v1/messages", asked);
    assert.deepEqual({ stop_reason: whole["stop_reason"], stop_sequence: whole["stop_sequence"] }, end);
    const { chunks } = await events(await post(berth.url, "/v1/messages", { ...asked, stream: true }));
    assert.deepEqual(chunks.find(({ type }) => type === "message_delta")?.["delta"], end);
  });

  await t.test("token counts are refused by name", async () => {
    const counted = await post(berth.url, "/v1/messages/count_tokens", { model: "primary", messages });
    assert.equal(counted.status, 501);
  });

  await t.test("one slot embeds and ranks, each in a process of its own", async () => {
    await berth.state("embed", "ready");
    const embedded = await ask(berth.url, "/v1/embeddings", { model: "embed", input: "hello" });
    assert.equal(list(embedded["data"]).length, 1);
    const empty = await post(berth.url, "/v1/embeddings", { model: "embed", input: ["a", ""], dimensions: 8 });
    assert.equal(empty.status, 400);
    assert.match(await empty.text(), /input\[1\] is empty/);
    const documents = ["one", "again"];
    const ranked = await ask(berth.url, "/v1/rerank", { model: "embed", query: "which", documents, top_n: 1 });
    const [best] = list(ranked["results"]);
    assert.ok(Number(best?.["relevance_score"]) > 0);
    assert.ok(Number(record(ranked["usage"])["total_tokens"]) > 0);
  });
});

test("a llama-server without the newer routes is recognised, and messages are translated for it", async () => {
  await using directory = await tempDir();
  // A double of an old version: the embedded engine takes the same flags and has none of them.
  const oldServer = join(directory.path, "llama-server");
  await writeFile(oldServer, `#!/bin/sh\nexec "${process.execPath}" "${embeddedProgram}" "$@"\n`, { mode: 0o755 });
  await using berth = await startBerth({
    env: { SVC_LLAMA_SERVER: oldServer },
    prepare: async ({ configDir, modelsDir }) => {
      await writeTinyModel(join(modelsDir, "tiny.gguf"));
      await writeFile(join(configDir, "slots/primary.toml"), '[model]\ndefault = "tiny"\n');
    },
  });
  await berth.state("primary", "ready");
  assert.deepEqual((await readPublished(berth.stateDir, "primary"))?.status.protocols, []);
  const body = await ask(berth.url, "/v1/messages", { model: "primary", messages, max_tokens: 3 });
  assert.equal(body["type"], "message");
});
