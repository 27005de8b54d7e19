import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import OpenAI from "openai";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { startBerth } from "../support/berth.ts";
import { openaiClient, testClients } from "../support/clients.ts";
import { readPublished } from "../support/published.ts";
import { rejectionOf } from "../support/rejection.ts";
import { writeToolCaller } from "../support/scripted-model.ts";

async function prepare({ configDir, modelsDir }: { configDir: string; modelsDir: string }): Promise<void> {
  await writeTinyModel(join(modelsDir, "tiny.gguf"));
  await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
  await writeTinyModel(join(modelsDir, "ranker.gguf"), { ranker: true });
  await writeToolCaller(join(modelsDir, "caller.gguf"));
  await writeFile(join(configDir, "slots/primary.toml"), 'load = "onDemand"\n[model]\ndefault = "tiny"\n');
  await writeFile(join(configDir, "slots/tools.toml"), 'load = "onDemand"\n[model]\ndefault = "caller"\n');
  await writeFile(join(configDir, "slots/off.toml"), 'enabled = false\n[model]\ndefault = "tiny"\n');
  await writeFile(
    join(configDir, "slots/embed.toml"),
    'load = "onDemand"\n[model]\ndefault = "tiny-embed"\nrerank = "ranker"\n',
  );
}

const messages = [{ role: "user" as const, content: "hello" }];
const chat = { model: "primary", messages, max_tokens: 4 };
test("the OpenAI client against the real embedded engine, from slots that nobody has loaded", async (t) => {
  await using berth = await startBerth({ prepare });
  const client = openaiClient(berth.url);

  await t.test("four streams at once, before anything is loaded, are answered by one load", async () => {
    const streams = Array.from({ length: 4 }, async () => {
      let text = "";
      let finish: string | null = null;
      let tokens = 0;
      const stream = await client.chat.completions.create({
        ...chat,
        temperature: 0,
        stream: true,
        stream_options: { include_usage: true },
      });
      for await (const { model, choices, usage } of stream) {
        assert.equal(model, "primary");
        text += choices[0]?.delta.content ?? "";
        finish = choices[0]?.finish_reason ?? finish;
        tokens = usage?.completion_tokens ?? tokens;
      }
      return { text, finish, tokens };
    });
    const [first, ...others] = await Promise.all(streams);
    assert.deepEqual([first?.finish, first?.tokens], ["length", 4]);
    for (const other of others) assert.deepEqual(other, first);
    const { transitions } = await berth.slot("primary");
    assert.equal(transitions?.filter(({ to }) => to === "starting").length, 1);
  });

  await testClients(t, {
    url: berth.url,
    chat: "primary",
    ref: "tiny",
    schema: "primary",
    tools: "tools",
    tokensWithinCall: 20,
    embed: "embed",
  });

  await t.test("the gateway translates what the engine has no route for", async () => {
    const { status } = (await readPublished(berth.stateDir, "tools")) ?? {};
    const capabilities = ["chat", "completions", "messages", "responses"];
    assert.deepEqual([status?.capabilities, status?.protocols], [capabilities, []]);
  });

  await t.test("the list of models", async () => {
    const ids: string[] = [];
    for await (const { id } of client.models.list()) ids.push(id);
    assert.deepEqual(ids, ["primary", "embed", "stt", "tts", "img", "tools", "caller", "ranker", "tiny", "tiny-embed"]);
    assert.equal((await client.models.retrieve("tiny")).owned_by, "berth");
  });

  await t.test("a disabled slot is not tried again by the SDK, though it would", async () => {
    let tries = 0;
    const eager = new OpenAI({
      apiKey: "none",
      baseURL: `${berth.url}/v1`,
      maxRetries: 3,
      fetch: async (url, init) => {
        tries += 1;
        return await fetch(url, init);
      },
    });
    const asked = eager.chat.completions.create({ ...chat, model: "off" });
    const disabled = await rejectionOf(asked, OpenAI.InternalServerError);
    assert.deepEqual([disabled.status, disabled.code, tries], [503, "slot.disabled", 1]);
  });
});
