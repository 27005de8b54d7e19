import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { anthropicClient, openaiClient, shown, testClients } from "../support/clients.ts";
import { post } from "../support/openai.ts";
import { writeToolCaller } from "../support/scripted-model.ts";
import { llamaServer, startWithLlamaServer } from "./fixture.ts";

const slots = {
  primary: 'default = "tiny"\ncontext_size = 512',
  plain: 'default = "plain"',
  tools: 'default = "caller"',
  embed: 'default = "tiny-embed"\nrerank = "ranker"',
};

test("the clients that people use, against the real llama-server, from slots that nobody has loaded", async (t) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    const model = (name: string): string => join(modelsDir, `${name}.gguf`);
    await writeTinyModel(model("tiny"));
    // llama.cpp holds the whole turn to the grammar; a plain word before the answer would be tokenized otherwise there.
    await writeTinyModel(model("plain"), {
      chatTemplate:
        "{% for message in messages %}{% if message.role == 'system' and not loop.first %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}{{ message.content }}\n{% endfor %}",
    });
    await writeTinyModel(model("tiny-embed"), { embedding: true });
    await writeTinyModel(model("ranker"), { ranker: true });
    await writeToolCaller(model("caller"));
    for (const [name, fields] of Object.entries(slots))
      await writeFile(join(configDir, `slots/${name}.toml`), `load = "onDemand"\n[model]\n${fields}\n`);
    const flags = ["--jinja", "-t", "1", "--model", model("tiny"), "--host", "$(HOST)", "--port", "$(PORT)"];
    const own = [llamaServer(), ...flags];
    await writeFile(
      join(configDir, "slots/native.toml"),
      `engine = "custom"\nload = "onDemand"\ncapabilities = ["chat", "responses"]\ncommand = ${JSON.stringify(own)}\n`,
    );
  });
  const [openai, anthropic] = [openaiClient(berth.url), anthropicClient(berth.url)];

  await testClients(t, {
    url: berth.url,
    chat: "primary",
    ref: "tiny",
    schema: "plain",
    tools: "tools",
    tokensWithinCall: 10,
    embed: "embed",
  });

  await t.test(
    "openai: responses of llama-server's own, as it writes them, from a slot that declares them",
    async () => {
      const asked = { model: "native", input: "hello", max_output_tokens: 4, temperature: 0 };
      const whole = await openai.responses.create(asked);
      assert.deepEqual([whole.object, whole.model, whole.usage?.output_tokens], ["response", "native", 4]);
      const events = await Array.fromAsync(await openai.responses.create({ ...asked, stream: true }));
      const words = events.map((each) => (each.type === "response.output_text.delta" ? each.delta : ""));
      assert.equal(words.join(""), whole.output_text);
      const last = events.at(-1);
      assert.equal(last?.type === "response.completed" && last.response.model, "native");
      const other = await openai.responses.create({ ...asked, model: "primary" });
      assert.deepEqual([whole.status, other.status], ["completed", "incomplete"], "whose status shows who answered");
    },
  );

  await t.test("a tool's schema that no grammar of llama.cpp can hold is no refusal of all tools", async () => {
    const parameters = { type: "object", properties: { url: { $ref: "https://example.com/url.json" } } };
    const tools = [{ type: "function" as const, function: { name: "get_weather", parameters } }];
    const messages = [{ role: "user" as const, content: "What is the weather?" }];
    const asked = { model: "tools", max_tokens: 4, messages, tools, tool_choice: "required" as const };
    const { data, response } = await openai.chat.completions.create(asked).withResponse();
    assert.deepEqual([data.object, response.headers.get("x-berth-left-out")], ["chat.completion", "tools.$ref"]);
  });

  await t.test("a later system message, as Claude Code sends it, to a template that accepts none", async () => {
    const messages = [
      { role: "user", content: "hi" },
      { role: "system", content: "be brief" },
    ] as const;
    const response = await post(berth.url, "/v1/messages", { model: "plain", max_tokens: 2, system: "a", messages });
    assert.equal(response.status, 200, await response.clone().text());
    const chat = await post(berth.url, "/v1/chat/completions", { model: "plain", messages });
    assert.match(await chat.text(), /System message must be at the beginning/);
  });

  await t.test("anthropic: the tokens of a message, counted as the answer counts them", async () => {
    const asked = { model: "primary", messages: [{ role: "user" as const, content: "hello" }] };
    const { input_tokens: counted } = await anthropic.messages.countTokens(asked);
    const { usage } = await anthropic.messages.create({ ...asked, max_tokens: 1 });
    assert.equal(counted, shown(usage));
  });
});
