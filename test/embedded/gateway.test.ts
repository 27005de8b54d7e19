import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth } from "../support/berth.ts";
import { ask, events, list, post, record } from "../support/openai.ts";
import { readPublished } from "../support/published.ts";
import { writeToolCaller } from "../support/scripted-model.ts";

const messages = [{ role: "user", content: "hello" }];

test("the gateway translates requests for routes that the embedded engine does not have", async (t) => {
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

  await t.test("one slot embeds and ranks, each in a process of its own", async () => {
    await berth.state("embed", "ready");
    const embedded = await ask(berth.url, "/v1/embeddings", { model: "embed", input: "hello" });
    assert.equal(list(embedded["data"]).length, 1);
    const documents = ["one", "again"];
    const ranked = await ask(berth.url, "/v1/rerank", { model: "embed", query: "which", documents, top_n: 1 });
    const [best] = list(ranked["results"]);
    assert.ok(Number(best?.["relevance_score"]) > 0);
    assert.ok(Number(record(ranked["usage"])["total_tokens"]) > 0);
  });
});
