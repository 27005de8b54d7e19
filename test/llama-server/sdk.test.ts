import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/lib/record.ts";
import { rejectionOf } from "../support/rejection.ts";
import { scriptedCall, writeToolCaller } from "../support/scripted-model.ts";
import { startWithLlamaServer } from "./fixture.ts";

const messages = [{ role: "user" as const, content: "hello" }];
const chat = { model: "primary", messages, max_tokens: 4, temperature: 0 };
const parameters = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] };

test("the SDKs of OpenAI and Anthropic against the real llama-server, from slots that nobody has loaded", async (t) => {
  await using berth = await startWithLlamaServer(async ({ configDir, modelsDir }) => {
    await writeTinyModel(join(modelsDir, "tiny.gguf"));
    await writeTinyModel(join(modelsDir, "tiny-embed.gguf"), { embedding: true });
    // llama.cpp holds the whole turn to the grammar; a plain word before the answer would be tokenized otherwise there.
    const chatTemplate = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
    await writeTinyModel(join(modelsDir, "plain.gguf"), { chatTemplate });
    await writeToolCaller(join(modelsDir, "caller.gguf"));
    for (const [slot, model] of [
      ["primary", "tiny"],
      ["embed", "tiny-embed"],
      ["plain", "plain"],
      ["tools", "caller"],
    ])
      await writeFile(join(configDir, `slots/${slot}.toml`), `load = "onDemand"\n[model]\ndefault = "${model}"\n`);
  });
  const openai = new OpenAI({ apiKey: "none", baseURL: `${berth.url}/v1`, maxRetries: 0 });
  const anthropic = new Anthropic({ apiKey: "none", baseURL: berth.url, maxRetries: 0 });

  await t.test("a chat, whole and streamed, from cold", async () => {
    const whole = await openai.chat.completions.create(chat);
    assert.deepEqual([whole.model, whole.choices[0]?.finish_reason], ["primary", "length"]);
    let text = "";
    let tokens = 0;
    const stream = await openai.chat.completions.create({
      ...chat,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const { model, choices, usage } of stream) {
      assert.equal(model, "primary");
      text += choices[0]?.delta.content ?? "";
      tokens = usage?.completion_tokens ?? tokens;
    }
    assert.deepEqual([text, tokens], [whole.choices[0]?.message.content, 4]);
  });

  await t.test("a tool's call, whole and streamed", async () => {
    const tools = [{ type: "function" as const, function: { name: scriptedCall.name, parameters } }];
    const asked = { ...chat, model: "tools", max_tokens: 60, tools };
    const [call] = (await openai.chat.completions.create(asked)).choices[0]?.message.tool_calls ?? [];
    assert.ok(call?.type === "function");
    assert.deepEqual(JSON.parse(call.function.arguments), scriptedCall.arguments);
    const streamed = await openai.chat.completions.stream(asked).finalChatCompletion();
    const [again] = streamed.choices[0]?.message.tool_calls ?? [];
    assert.ok(again?.type === "function");
    assert.deepEqual(
      [again.function.name, JSON.parse(again.function.arguments)],
      [scriptedCall.name, scriptedCall.arguments],
    );
  });

  await t.test("an answer that keeps to a JSON schema", async () => {
    const schema = {
      type: "object",
      properties: { sky: { enum: ["blue", "grey"] } },
      required: ["sky"],
      additionalProperties: false,
    };
    const { choices } = await openai.chat.completions.create({
      ...chat,
      model: "plain",
      max_tokens: 100,
      response_format: { type: "json_schema", json_schema: { name: "sky", schema, strict: true } },
    });
    const answer: unknown = JSON.parse(choices[0]?.message.content ?? "");
    assert.ok(isRecord(answer) && (answer["sky"] === "blue" || answer["sky"] === "grey"));
  });

  await t.test("a completion, whole and streamed", async () => {
    const asked = { model: "tiny", prompt: "the", max_tokens: 3, temperature: 0 };
    const whole = await openai.completions.create(asked);
    let text = "";
    for await (const { choices } of await openai.completions.create({ ...asked, stream: true }))
      text += choices[0]?.text ?? "";
    assert.deepEqual([text, whole.model], [whole.choices[0]?.text, "tiny"]);
  });

  await t.test("embeddings, which the SDK asks for in base64", async () => {
    const { data, model } = await openai.embeddings.create({ model: "embed", input: ["hello", "world"] });
    assert.deepEqual([model, data.map(({ index }) => index)], ["embed", [0, 1]]);
    for (const { embedding } of data) assert.ok(Math.abs(Math.hypot(...embedding) - 1) < 1e-3, "a unit vector");
  });

  await t.test("responses, whole and streamed", async () => {
    const asked = { model: "primary", input: "hello", max_output_tokens: 4 };
    const whole = await openai.responses.create(asked);
    assert.deepEqual([whole.object, whole.model], ["response", "primary"]);
    assert.ok(whole.output_text.length > 0);
    const types: string[] = [];
    for await (const { type } of await openai.responses.create({ ...asked, stream: true })) types.push(type);
    assert.equal(types[0], "response.created");
    assert.ok(types.includes("response.output_text.delta"));
    assert.match(types.at(-1) ?? "", /^response\.(completed|incomplete)$/);
  });

  await t.test("messages, whole, streamed and counted, by Anthropic's own SDK", async () => {
    const asked = { model: "primary", max_tokens: 4, messages, temperature: 0 };
    const whole = await anthropic.messages.create(asked);
    assert.deepEqual([whole.type, whole.model, whole.stop_reason], ["message", "primary", "max_tokens"]);
    const streamed = await anthropic.messages.stream(asked).finalMessage();
    const text = (message: typeof whole): string =>
      message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
    assert.ok(text(whole).length > 0);
    assert.deepEqual([text(streamed), streamed.model], [text(whole), "primary"]);
    const { input_tokens: counted } = await anthropic.messages.countTokens({ model: "primary", messages });
    assert.ok(counted > 0);
  });

  await t.test("failures as each SDK's own classes", async () => {
    const unknown = await rejectionOf(openai.chat.completions.create({ ...chat, model: "primry" }), NotFoundError);
    assert.equal(unknown.code, "model.not_found");
    const long = [{ role: "user" as const, content: "the and of ".repeat(3000) }];
    const refused = await rejectionOf(openai.chat.completions.create({ ...chat, messages: long }), BadRequestError);
    assert.equal(refused.code, "dispatch.rejected");
    const asked = { model: "primary", max_tokens: 4, messages: long };
    const other = await rejectionOf(anthropic.messages.create(asked), Anthropic.APIError);
    assert.deepEqual([other.status, other.type], [400, "invalid_request_error"]);
    const nobody = await rejectionOf(anthropic.messages.create({ ...asked, model: "nobody" }), Anthropic.APIError);
    assert.deepEqual([nobody.status, nobody.type], [404, "not_found_error"]);
  });
});
