import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ResponseCreateParamsNonStreaming } from "openai/resources/responses/responses";
import { list } from "../../support/openai.ts";
import { assistant, briefly, data, done, hello, text, tool, toolCall, user } from "./bodies.ts";
import { exchanging } from "./site.ts";

const served = { model: "engine-model" };
const asking = (): ReturnType<typeof exchanging> => exchanging("/v1/responses", { model: "primary", input: "hello" });

const schema = { type: "object" };
const city = { type: "function", name: "city", parameters: schema };

/** Every field of OpenAI's protocol, and `client_metadata` of its Codex: an SDK that knows more fails to compile here. */
const ownFields = {
  access_programs: {},
  background: false,
  client_metadata: { a: "b" },
  context_management: [],
  conversation: null,
  image: {},
  include: ["reasoning.encrypted_content"],
  max_tool_calls: 3,
  metadata: { a: "b" },
  moderation: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  prompt: null,
  prompt_cache_key: "k",
  prompt_cache_options: { ttl: "30m" },
  prompt_cache_retention: "24h",
  safety_identifier: "s",
  service_tier: "auto",
  store: true,
  stream_options: {},
  text: { verbosity: "low" },
  tool_choice: "auto",
  tools: [],
  top_logprobs: 2,
  truncation: "auto",
  user: "u",
} satisfies Record<
  | Exclude<
      keyof ResponseCreateParamsNonStreaming,
      "input" | "instructions" | "max_output_tokens" | "model" | "reasoning" | "stream" | "temperature" | "top_p"
    >
  | "client_metadata",
  unknown
>;

describe("a Responses request for a chat engine", () => {
  const ask = asking();
  const system = (content: string): object => ({ role: "system", content });
  const jsonSchema = { name: "sky", strict: true, schema };
  const ofEngine = { seed: 1, chat_template_kwargs: { enable_thinking: false } };
  const fields: readonly (readonly [what: string, request: object, chat: object])[] = [
    ["the least there can be", {}, {}],
    ["what only the engine knows", ofEngine, ofEngine],
    ["nothing of what only its service has", { ...ownFields, n: 3 }, {}],
    ["a text as the form of the answer", { text: { format: { type: "text" }, verbosity: "low" } }, {}],
    ["any JSON", { text: { format: { type: "json_object" } } }, { response_format: { type: "json_object" } }],
    [
      "a certain tool",
      { tools: [city], tool_choice: { type: "function", name: "city" } },
      { tools: [tool("city", { parameters: schema })], tool_choice: tool("city", {}) },
    ],
    [
      "all that a chat has too",
      {
        instructions: "be brief",
        temperature: 0,
        top_p: 0.5,
        max_output_tokens: 7,
        reasoning: { effort: "low", summary: "auto" },
        stream: true,
        tools: [{ ...city, strict: true, description: "where" }],
        tool_choice: "required",
        parallel_tool_calls: false,
        text: { format: { type: "json_schema", ...jsonSchema } },
      },
      {
        messages: [system("be brief"), hello],
        temperature: 0,
        top_p: 0.5,
        max_tokens: 7,
        reasoning_effort: "low",
        stream: true,
        stream_options: { include_usage: true },
        tools: [tool("city", { description: "where", parameters: schema, strict: true })],
        tool_choice: "required",
        parallel_tool_calls: false,
        response_format: { type: "json_schema", json_schema: jsonSchema },
      },
    ],
  ];
  for (const [what, request, chat] of fields)
    it(`carries ${what}`, async () =>
      assert.deepEqual((await ask(request)).sent, { ...served, messages: [hello], ...chat }));

  const url = "data:image/png;base64,QUJD";
  const say = (words: string): object => text(words, "input_text");
  const image = { type: "input_image", image_url: url };
  const call = (id: string): object => ({
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name: "city",
    arguments: "{}",
  });
  const output = (id: string, result: unknown): object => ({
    type: "function_call_output",
    call_id: id,
    output: result,
  });
  const sound = { type: "input_audio", input_audio: { data: "QUJD", format: "wav" } };
  const lost = (what: string): string => `[${what} could not be shown to this model.]`;
  const file = (data: string, name?: string): object => ({ type: "input_file", filename: name, file_data: data });
  const parts: readonly (readonly [part: object, shown: string])[] = [
    [file("data:text/markdown;base64,IyBoaQ==", "a.md"), "a.md\n\n# hi"],
    [file("Ynll", "b.txt"), "b.txt\n\nbye"],
    [file("data:application/pdf;base64,QUJD", "c.pdf"), lost('A document "c.pdf" of 3 bytes')],
    [file(Buffer.from("%PDF-1.7").toString("base64"), "d"), lost('A document "d" of 8 bytes')],
    [file("AAAA", "e.bin"), lost('A document "e.bin" of 3 bytes')],
    [file("DATA:text/plain; BASE64;charset=utf-8,Ynll"), "bye"],
    [file("data:text/plain,100%25%20%C3%A4"), "100% ä"],
    [file("data:text/plain,100%"), "100%"],
    [file(`data:${"a".repeat(1_000_000)}`), lost("A document of 750003 bytes")],
    [{ type: "input_file", file_id: "f" }, lost("A document")],
    [{ type: "input_image", file_id: "f" }, lost("An image that is stored elsewhere")],
    [{ type: "input_video" }, lost("Content of another type")],
  ];
  it("carries files as their text, images, sounds, and in place of the rest what it was", async () => {
    const asked = user([say("look"), { ...image, detail: "low" }, ...parts.map(([part]) => part), sound]);
    const shown = [
      text("look"),
      { type: "image_url", image_url: { url, detail: "low" } },
      ...parts.map(([, words]) => text(words)),
      sound,
    ];
    assert.deepEqual((await ask({ input: [asked] })).sent, { ...served, messages: [user(shown)] });
  });

  const developer = (words: string): object => ({ role: "developer", content: words });
  const thoughts = { type: "reasoning", id: "rs", content: [{ type: "reasoning_text", text: "hm" }] };
  const spoken = assistant([{ ...text("let me see", "output_text"), annotations: [] }]);
  const refusal = assistant([{ type: "refusal", refusal: "no" }]);
  const seen = `user: [{"image_url":{"url":"${url}"}}]`;
  const conversations: readonly (readonly [what: string, input: readonly object[], chat: readonly string[]])[] = [
    ["a message without its type", [hello], ["user: hello"]],
    ["texts as one text", [{ type: "message", ...user([say("a"), say("b")]) }], ["user: a/b"]],
    [
      "what leads as one system message, and what comes later as a reminder at its place",
      [developer("a"), system("b"), hello, developer("c")],
      ["system: a/b", "user: hello/<c>"],
    ],
    [
      "calls, what came of them, and the images among that",
      [
        thoughts,
        { type: "message", ...spoken },
        call("a"),
        call("b"),
        output("a", "rain"),
        output("b", [say("see"), image]),
      ],
      ["assistant: let me see a=city({}) b=city({})", "toola: rain", "toolb: see", seen],
    ],
    [
      "a call after results as a new message, and a refusal as a text",
      [call("a"), output("a", "rain"), call("c"), output("c", "sun"), refusal],
      ["assistant: a=city({})", "toola: rain", "assistant: c=city({})", "toolc: sun", "assistant: no"],
    ],
    [
      "what the assistant says between a call and its output within the message of the call",
      [
        call("a"),
        assistant("working"),
        call("b"),
        output("a", "1"),
        assistant("still"),
        output("b", "2"),
        assistant("done"),
      ],
      ["assistant: working/still a=city({}) b=city({})", "toola: 1", "toolb: 2", "assistant: done"],
    ],
    [
      "an output directly after its call, whoever spoke between them",
      [call("a"), user("hurry"), output("a", [image]), assistant("done"), output("unknown", "lost")],
      ["assistant: a=city({})", "toola:", seen, "user: hurry", "assistant: done", "toolunknown: lost"],
    ],
  ];
  for (const [what, input, chat] of conversations)
    it(`carries ${what}`, async () => assert.deepEqual(briefly((await ask({ input })).sent["messages"]), chat));
});

describe("a chat engine's answer as a response", () => {
  const ask = asking();
  const usage = {
    prompt_tokens: 9,
    completion_tokens: 4,
    prompt_tokens_details: { cached_tokens: 3 },
    completion_tokens_details: { reasoning_tokens: 2 },
  };
  const chat = (message: object, finish = "stop"): object => ({
    id: "chatcmpl-1",
    choices: [{ index: 0, message, finish_reason: finish }],
    usage,
  });

  it("has every field of its protocol", async () => {
    const request = { instructions: "be brief", temperature: 0, metadata: { a: "b" } };
    const {
      id,
      created_at: created,
      completed_at: completed,
      output,
      ...rest
    } = (await ask(request, chat({ content: "hello" }))).answer;
    const [item] = list(output);
    assert.match(`${String(id)} ${String(item?.["id"])}`, /^resp_[0-9a-f]{32} msg_[0-9a-f]{32}$/);
    assert.ok(Number(created) > 1.7e9 && Number(completed) >= Number(created));
    const content = [{ ...text("hello", "output_text"), annotations: [], logprobs: [] }];
    assert.deepEqual(output, [{ id: item?.["id"], type: "message", status: "completed", role: "assistant", content }]);
    assert.deepEqual(rest, {
      object: "response",
      status: "completed",
      background: false,
      error: null,
      incomplete_details: null,
      model: "primary",
      instructions: "be brief",
      max_output_tokens: null,
      metadata: { a: "b" },
      parallel_tool_calls: true,
      previous_response_id: null,
      reasoning: { effort: null, summary: null },
      store: false,
      temperature: 0,
      text: { format: { type: "text" } },
      tool_choice: "auto",
      tools: [],
      top_p: null,
      truncation: "disabled",
      usage: {
        input_tokens: 9,
        input_tokens_details: { cached_tokens: 3 },
        output_tokens: 4,
        output_tokens_details: { reasoning_tokens: 2 },
        total_tokens: 13,
      },
    });
  });

  it("does not repeat a request of any length", async () => {
    const { text } = await ask({ instructions: "long ".repeat(20_000) }, chat({ content: "x" }));
    assert.ok(text.length < 2000);
  });

  it("has thoughts, text, refusal and calls in that order, and says where it was cut", async () => {
    const calls = [toolCall("a", "city"), { function: { name: "city", arguments: '{"x"' } }];
    const message = { reasoning_content: "hm", content: "well", refusal: "no", tool_calls: calls };
    const { answer: response } = await ask({}, chat(message, "length"));
    assert.deepEqual(
      [response["status"], response["incomplete_details"]],
      ["incomplete", { reason: "max_output_tokens" }],
    );
    const [thoughts, words, first, second] = list(response["output"]).map(({ id: _id, ...item }) => item);
    const content = [text("hm", "reasoning_text")];
    assert.deepEqual(thoughts, { type: "reasoning", summary: [], content, status: "completed" });
    assert.deepEqual(
      list(words?.["content"]).map(({ type }) => type),
      ["output_text", "refusal"],
    );
    const call = { type: "function_call", status: "completed", name: "city" };
    assert.deepEqual(first, { ...call, call_id: "a", arguments: "{}" });
    assert.match(String(second?.["call_id"]), /^call_/);
    assert.equal(second?.["status"], "incomplete");
  });

  it("has an id of its own for each call to which the engine gave an empty one, whole and as a stream", async () => {
    const calls = [0, 1].map((index) => ({ ...toolCall("", "city"), index }));
    const sent = data({ choices: [{ delta: { tool_calls: calls }, finish_reason: "tool_calls" }] }) + done;
    for (const exchange of [await ask({}, chat({ tool_calls: calls })), await ask({ stream: true }, sent)])
      assert.equal(new Set(exchange.text.match(/"call_id":"call_[0-9a-f]{32}"/g)).size, 2, exchange.text);
  });

  it("is the engine's failure where it is no chat", async () => {
    for (const body of [{}, { choices: [] }]) assert.match((await ask({}, body)).refusal[1], /no chat completion/);
  });
});
