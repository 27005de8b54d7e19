import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import type { ResponseFunctionToolCall } from "openai/resources/responses/responses";
import { isRecord } from "../../src/lib/record.ts";
import { rejectionOf } from "./rejection.ts";
import { list, post, record } from "./openai.ts";
import { scriptedCall } from "./scripted-model.ts";

/** The slots of a Berth whose engine is real. */
export interface ClientSlots {
  readonly url: string;
  /** Chat with noise. */
  readonly chat: string;
  /** The ref of the model in it. */
  readonly ref: string;
  /** Keeps to a schema. */
  readonly schema: string;
  /** Runs what `writeToolCaller` writes. */
  readonly tools: string;
  /** Tokens that end within the arguments of its call. */
  readonly tokensWithinCall: number;
  /** Embeds and ranks. */
  readonly embed: string;
}

const messages = [{ role: "user" as const, content: "hello" }];
const city = { type: "object" as const, properties: { city: { enum: ["here"] } }, required: ["city"] };

const sky = {
  name: "sky",
  schema: {
    type: "object",
    properties: { sky: { enum: ["blue", "grey"] } },
    required: ["sky"],
    additionalProperties: false,
  },
  strict: true,
};

function assertSky(text: string): void {
  const answer: unknown = JSON.parse(text);
  assert.ok(isRecord(answer) && (answer["sky"] === "blue" || answer["sky"] === "grey"));
}

export function openaiClient(url: string): OpenAI {
  return new OpenAI({ apiKey: "none", baseURL: `${url}/v1`, maxRetries: 0 });
}

export function anthropicClient(url: string): Anthropic {
  return new Anthropic({ apiKey: "none", baseURL: url, maxRetries: 0 });
}

/** The tokens of a prompt, those that the engine still knew from an earlier one too. */
export function shown({ input_tokens: fresh, cache_read_input_tokens: known }: Anthropic.Usage): number {
  return fresh + (known ?? 0);
}

/** Tests the clients that people use on a real engine behind the gateway. */
export async function testClients(t: TestContext, slots: ClientSlots): Promise<void> {
  const openai = openaiClient(slots.url);
  const anthropic = anthropicClient(slots.url);
  // Nothing here is drawn by lot: a model of noise may otherwise end wherever it likes.
  const chat = { model: slots.chat, messages, max_tokens: 4, temperature: 0 };

  await t.test("openai: a chat, whole", async () => {
    const { data, request_id: id } = await openai.chat.completions.create(chat).withResponse();
    assert.deepEqual(
      [data.object, data.model, data.choices[0]?.finish_reason],
      ["chat.completion", slots.chat, "length"],
    );
    assert.equal(data.usage?.completion_tokens, 4);
    assert.match(id ?? "", /^[\w.-]+$/);
  });

  await t.test("openai: a streamed chat has the same text as the whole answer", async () => {
    const asked = chat;
    const whole = await openai.chat.completions.create(asked);
    const stream = openai.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
    const models = new Set<string>();
    stream.on("chunk", ({ model }) => void models.add(model));
    const { choices, usage } = await stream.finalChatCompletion();
    assert.deepEqual([choices[0]?.finish_reason, usage?.completion_tokens, ...models], ["length", 4, slots.chat]);
    assert.equal(choices[0]?.message.content, whole.choices[0]?.message.content);
  });

  await t.test("openai: a model that calls a tool, whole and streamed", async () => {
    const tool = { type: "function" as const, function: { name: scriptedCall.name, parameters: city } };
    const asked = { ...chat, model: slots.tools, max_tokens: 60, tools: [tool], parallel_tool_calls: false };
    for (const completion of [
      await openai.chat.completions.create(asked),
      await openai.chat.completions.stream(asked).finalChatCompletion(),
    ]) {
      const [choice] = completion.choices;
      assert.equal(choice?.finish_reason, "tool_calls");
      const [call, ...more] = choice.message.tool_calls ?? [];
      assert.ok(call?.type === "function" && more.length === 0);
      assert.deepEqual(
        [call.function.name, JSON.parse(call.function.arguments)],
        [scriptedCall.name, scriptedCall.arguments],
      );
    }
  });

  await t.test("openai: an answer that keeps to a JSON schema", async () => {
    const { choices } = await openai.chat.completions.create({
      ...chat,
      model: slots.schema,
      max_tokens: 100,
      response_format: { type: "json_schema", json_schema: sky },
    });
    assertSky(choices[0]?.message.content ?? "");
  });

  await t.test("openai: a completion, whole and streamed", async () => {
    const asked = { model: slots.ref, prompt: "the", max_tokens: 3, temperature: 0 };
    const whole = await openai.completions.create(asked);
    assert.deepEqual([whole.object, whole.model], ["text_completion", slots.ref]);
    let text = "";
    for await (const { choices } of await openai.completions.create({ ...asked, stream: true }))
      text += choices[0]?.text ?? "";
    assert.equal(text, whole.choices[0]?.text);
  });

  await t.test("openai: embeddings as numbers and as base64; and a ranking, which it has no call for", async () => {
    // The SDK asks for base64 by default, and decodes it.
    const { data, model } = await openai.embeddings.create({ model: slots.embed, input: ["hello", "world"] });
    assert.deepEqual([model, data.map(({ index }) => index)], [slots.embed, [0, 1]]);
    const plain = await openai.embeddings.create({ model: slots.embed, input: "hello", encoding_format: "float" });
    const [packed, loose] = [data[0]?.embedding ?? [], plain.data[0]?.embedding ?? []];
    assert.ok(packed.length > 0 && packed.length === loose.length);
    assert.ok(packed.every((value, at) => Math.abs(value - (loose[at] ?? Infinity)) < 1e-4));
    const asked = { model: slots.embed, query: "which", documents: ["the", "and of"], top_n: 1 };
    const response = await post(slots.url, "/v1/rerankings", asked);
    const ranked = record(await response.json());
    assert.equal(response.status, 200, JSON.stringify(ranked));
    assert.deepEqual([ranked["object"], ranked["model"], list(ranked["results"]).length], ["list", slots.embed, 1]);
  });

  await testResponses(t, openai, slots);

  await t.test("anthropic: a message, whole and streamed", async () => {
    const whole = await anthropic.messages.create(chat);
    assert.deepEqual(
      [whole.type, whole.role, whole.model, whole.stop_reason, whole.usage.output_tokens],
      ["message", "assistant", slots.chat, "max_tokens", 4],
    );
    const types = new Set<string>();
    const stream = anthropic.messages.stream(chat).on("streamEvent", ({ type }) => void types.add(type));
    const streamed = await stream.finalMessage();
    assert.deepEqual(
      [streamed.model, streamed.stop_reason, streamed.usage.output_tokens],
      [slots.chat, "max_tokens", 4],
    );
    assert.deepEqual(streamed.content, whole.content);
    assert.deepEqual([...types].slice(0, 2), ["message_start", "content_block_start"]);
    assert.ok(types.has("message_stop"));
  });

  const tools = [{ name: scriptedCall.name, description: "Weather", input_schema: city }];
  const message = { model: slots.tools, messages, tools, temperature: 0 };
  await t.test("anthropic: a model that uses a tool, whole and streamed, and gets the tool's result", async () => {
    const asked = {
      ...message,
      max_tokens: 60,
      tool_choice: { type: "auto" as const, disable_parallel_tool_use: true },
    };
    const whole = await anthropic.messages.create(asked);
    for (const message of [whole, await anthropic.messages.stream(asked).finalMessage()]) {
      assert.equal(message.stop_reason, "tool_use");
      const [used, ...more] = message.content.filter((block) => block.type === "tool_use");
      assert.ok(used !== undefined && more.length === 0);
      assert.deepEqual([used.name, used.input], [scriptedCall.name, scriptedCall.arguments]);
    }
    const [used] = whole.content.filter((block) => block.type === "tool_use");
    const answer = { type: "tool_result" as const, tool_use_id: used?.id ?? "", content: "rain" };
    const next = await anthropic.messages.create({
      ...asked,
      messages: [...messages, { role: "assistant", content: whole.content }, { role: "user", content: [answer] }],
    });
    assert.ok(shown(next.usage) > shown(whole.usage), "the model was shown the call and its result");
  });

  await t.test("anthropic: an answer that its limit cuts, within a tool call too, is no failure", async () => {
    for (const limit of [4, slots.tokensWithinCall]) {
      const asked = { ...message, max_tokens: limit };
      for (const answer of [
        await anthropic.messages.create(asked),
        await anthropic.messages.stream(asked).finalMessage(),
      ])
        assert.deepEqual([answer.stop_reason, answer.usage.output_tokens], ["max_tokens", limit]);
    }
  });

  await t.test("each meets a refusal as an error of its own", async () => {
    const long = { ...chat, messages: [{ role: "user" as const, content: "the and of ".repeat(3000) }] };
    const refused = await rejectionOf(openai.chat.completions.create(long), OpenAI.BadRequestError);
    assert.deepEqual([refused.code, refused.type], ["dispatch.rejected", "exceed_context_size_error"]);
    assert.match(refused.message, /request \(\d+ tokens\) exceeds the available context size \(\d+ tokens\)/);
    const told = record(refused.error);
    assert.equal(told["openai_code"], "context_length_exceeded");
    assert.ok(Number(told["n_prompt_tokens"]) > Number(told["n_ctx"]) && Number(told["n_ctx"]) > 0);
    const unknown = await rejectionOf(
      openai.completions.create({ model: "primry", prompt: "x" }),
      OpenAI.NotFoundError,
    );
    assert.deepEqual([unknown.code, unknown.param], ["model.not_found", "model"]);
    assert.equal(record(unknown.error)["openai_code"], "model_not_found");
    const other = await rejectionOf(anthropic.messages.create(long), Anthropic.APIError);
    assert.deepEqual([other.status, other.type], [400, "invalid_request_error"]);
    assert.match(other.message, /exceeds the available context size/);
    assert.match(other.requestID ?? "", /^[\w.-]+$/);
    const nobody = await rejectionOf(anthropic.messages.create({ ...chat, model: "nobody" }), Anthropic.APIError);
    assert.deepEqual([nobody.status, nobody.type], [404, "not_found_error"]);
  });
}

/** OpenAI's client and its Responses, whichever engine makes them of a chat. */
async function testResponses(t: TestContext, openai: OpenAI, slots: ClientSlots): Promise<void> {
  const asked = { model: slots.chat, input: "hello", max_output_tokens: 4, temperature: 0 };

  await t.test("openai: a response that its limit cuts, whole and streamed", async () => {
    const whole = await openai.responses.create({ ...asked, instructions: "be brief" });
    assert.deepEqual(
      [whole.object, whole.model, whole.status, whole.incomplete_details?.reason, whole.usage?.output_tokens],
      ["response", slots.chat, "incomplete", "max_output_tokens", 4],
    );
    assert.ok(whole.output_text.length > 0 && (whole.usage?.input_tokens ?? 0) > 0);
    const numbers: number[] = [];
    let text = "";
    const stream = openai.responses.stream({ ...asked, instructions: "be brief" });
    stream.on("event", ({ sequence_number: at }) => void numbers.push(at));
    stream.on("response.output_text.delta", ({ delta }) => void (text += delta));
    const streamed = await stream.finalResponse();
    assert.deepEqual(
      [text, streamed.output_text, streamed.status],
      [whole.output_text, whole.output_text, "incomplete"],
    );
    assert.equal(streamed.usage?.total_tokens, whole.usage?.total_tokens);
    assert.deepEqual(numbers, Array.from(numbers.keys()));
  });

  await t.test(
    "openai: a response that calls a function, and the next response, which has the function's result",
    async () => {
      const tools = [
        {
          type: "function" as const,
          name: scriptedCall.name,
          parameters: { ...city, additionalProperties: false },
          strict: true,
        },
      ];
      const input = [{ role: "user" as const, content: "hello" }];
      const calling = { ...asked, model: slots.tools, max_output_tokens: 60, tools, parallel_tool_calls: false, input };
      const whole = await openai.responses.create(calling);
      for (const response of [whole, await openai.responses.stream(calling).finalResponse()]) {
        const call = callOf(response.output);
        assert.equal(response.status, "completed");
        assert.deepEqual([call.name, JSON.parse(call.arguments)], [scriptedCall.name, scriptedCall.arguments]);
      }
      const call = callOf(whole.output);
      const output = { type: "function_call_output" as const, call_id: call.call_id, output: "rain" };
      const next = await openai.responses.create({ ...calling, input: [...input, call, output] });
      assert.ok((next.usage?.input_tokens ?? 0) > (whole.usage?.input_tokens ?? 0), "the model was shown both");
    },
  );

  await t.test("openai: a response that keeps to a JSON schema", async () => {
    const format = { type: "json_schema" as const, ...sky };
    const keeping = { ...asked, model: slots.schema, max_output_tokens: 100, text: { format } };
    const { output_text: text } = await openai.responses.stream(keeping).finalResponse();
    assertSky(text);
  });
}

function callOf(output: readonly { readonly type: string }[]): ResponseFunctionToolCall {
  const calls = output.filter((item): item is ResponseFunctionToolCall => item.type === "function_call");
  const [call, ...more] = calls;
  assert.ok(call !== undefined && more.length === 0);
  return call;
}
