import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ResponseCreateParamsNonStreaming } from "openai/resources/responses/responses";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { list, record } from "../../support/openai.ts";
import {
  assistant,
  data,
  decode,
  done,
  encode,
  failureOf,
  hello,
  nothingKept,
  refusedAt,
  text,
  through,
  tool,
  toolCall,
  toolResult,
  user,
} from "./bodies.ts";

const base = { model: "primary" };
const opened = (request: object = {}): { translation: ResponsesTranslation; chat: unknown } => {
  const translation = new ResponsesTranslation(nothingKept);
  return { translation, chat: decode(translation.request(encode({ ...base, input: "hello", ...request }))) };
};
const chatOf = (request: object): unknown => opened(request).chat;
const answerOf = (chat: object, request: object = {}): Record<string, unknown> =>
  record(decode(opened(request).translation.answer(encode(chat))));

const schema = { type: "object" };
const city = { type: "function", name: "city", parameters: schema };
const cityTool = tool("city", { parameters: schema });

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
  const system = (content: string): object => ({ role: "system", content });
  const jsonSchema = { name: "sky", strict: true, schema };
  const ofEngine = { seed: 1, chat_template_kwargs: { enable_thinking: false } };
  const fields: readonly (readonly [what: string, request: object, chat: object])[] = [
    ["the least there can be", {}, {}],
    ["instructions", { instructions: "be brief" }, { messages: [system("be brief"), hello] }],
    ["sampling", { temperature: 0, top_p: 0.5, max_output_tokens: 7 }, { temperature: 0, top_p: 0.5, max_tokens: 7 }],
    ["what only the engine knows", ofEngine, ofEngine],
    ["nothing of what only its service has", { ...ownFields, n: 3 }, {}],
    ["how hard to think", { reasoning: { effort: "low", summary: "auto" } }, { reasoning_effort: "low" }],
    ["a stream", { stream: true }, { stream: true, stream_options: { include_usage: true } }],
    [
      "a tool",
      { tools: [{ ...city, strict: true, description: "where" }], tool_choice: "required", parallel_tool_calls: false },
      {
        tools: [tool("city", { description: "where", parameters: schema, strict: true })],
        tool_choice: "required",
        parallel_tool_calls: false,
      },
    ],
    [
      "a certain tool",
      { tools: [city], tool_choice: { type: "function", name: "city" } },
      { tools: [cityTool], tool_choice: tool("city", {}) },
    ],
    ["a text as the form of the answer", { text: { format: { type: "text" }, verbosity: "low" } }, {}],
    ["any JSON", { text: { format: { type: "json_object" } } }, { response_format: { type: "json_object" } }],
    [
      "a schema",
      { text: { format: { type: "json_schema", ...jsonSchema } } },
      { response_format: { type: "json_schema", json_schema: jsonSchema } },
    ],
  ];
  for (const [what, request, chat] of fields)
    it(`carries ${what}`, () => assert.deepEqual(chatOf(request), { ...base, messages: [hello], ...chat }));

  const url = "data:image/png;base64,QUJD";
  const say = (words: string): object => text(words, "input_text");
  const image = { type: "input_image", image_url: url };
  const imagePart = { type: "image_url", image_url: { url } };
  const call = (id: string): object => ({
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name: "city",
    arguments: "{}",
  });
  const called = (id: string): object => toolCall(id, "city");
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
  const conversations: readonly (readonly [what: string, input: readonly object[], chat: readonly object[]])[] = [
    ["a message without its type", [hello], [hello]],
    ["texts as one text", [{ type: "message", ...user([say("a"), say("b")]) }], [user("a\n\nb")]],
    [
      "images among texts",
      [user([say("look"), { ...image, detail: "low" }])],
      [user([text("look"), { type: "image_url", image_url: { url, detail: "low" } }])],
    ],
    [
      "files as their text, sounds, and in place of the rest what it was",
      [user([...parts.map(([part]) => part), sound])],
      [user([...parts.map(([, shown]) => text(shown)), sound])],
    ],
    [
      "what leads as one system message, and what comes later as a reminder at its place",
      [{ role: "developer", content: "a" }, system("b"), hello, { role: "developer", content: "c" }],
      [system("a\n\nb"), user("hello\n\n<system-reminder>\nc\n</system-reminder>")],
    ],
    [
      "calls, what came of them, and the images among that",
      [
        hello,
        { type: "reasoning", id: "rs", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
        { type: "message", ...assistant([{ ...text("let me see", "output_text"), annotations: [] }]) },
        call("a"),
        call("b"),
        output("a", "rain"),
        output("b", [say("see"), image]),
        call("c"),
        output("c", "sun"),
        assistant([{ type: "refusal", refusal: "no" }]),
      ],
      [
        hello,
        assistant("let me see", called("a"), called("b")),
        toolResult("a", "rain"),
        toolResult("b", "see"),
        user([imagePart]),
        assistant(null, called("c")),
        toolResult("c", "sun"),
        assistant("no"),
      ],
    ],
    [
      "what the assistant says between a call and its output within the message of the call",
      [
        hello,
        call("a"),
        assistant("working"),
        call("b"),
        output("a", "1"),
        assistant("still"),
        output("b", "2"),
        assistant("done"),
      ],
      [
        hello,
        assistant("working\n\nstill", called("a"), called("b")),
        toolResult("a", "1"),
        toolResult("b", "2"),
        assistant("done"),
      ],
    ],
    [
      "an output directly after its call, whoever spoke between them",
      [hello, call("a"), user("hurry"), output("a", [image]), assistant("done"), output("unknown", "lost")],
      [
        hello,
        assistant(null, called("a")),
        toolResult("a", ""),
        user([imagePart]),
        user("hurry"),
        assistant("done"),
        toolResult("unknown", "lost"),
      ],
    ],
  ];
  for (const [what, input, messages] of conversations)
    it(`carries ${what}`, () => assert.deepEqual(chatOf({ input }), { ...base, messages }));

  const refused: readonly (readonly [request: object, place: string, message: RegExp])[] = [
    [{ input: undefined }, "input", /must be a text or a list of items/],
    [{ input: [] }, "input", /at least one item/],
    [{ previous_response_id: "resp_1" }, "previous_response_id", /^previous_\w+: .*not stored here: send the whole/],
    [{ conversation: "conv_1" }, "conversation", /^conversation: conversation is not possible/],
    [{ conversation: { id: "conv_1" } }, "conversation", /not possible/],
    [{ prompt: { id: "pmpt_1" } }, "prompt", /templates are not stored here/],
    [{ background: true }, "background", /background is not possible/],
    [{ include: ["message.output_text.logprobs"] }, "include.0", /chat\/completions has logprobs/],
    [{ max_output_tokens: 0 }, "max_output_tokens", /at least 1/],
    [{ text: { format: { type: "grammar" } } }, "text.format.type", /json_schema/],
    [{ tools: [{ type: "function" }] }, "tools.0.name", /is required/],
    [{ tools: [{ name: "city" }] }, "tools.0.type", /must be a text/],
    [
      { input: [{ type: "item_reference", id: "msg_1" }] },
      "input.0",
      /names an item that is not stored here \(any more\): .*store: false$/,
    ],
    [
      { input: [{ type: "computer_call" }, { type: "made_up_by_me" }] },
      "input",
      /^input: holds nothing that can be passed to this engine: computer_call, another type$/,
    ],
    [{ input: [{ type: "function_call" }] }, "input.0.call_id", /is required/],
  ];
  for (const [request, place, message] of refused)
    it(`refuses ${JSON.stringify(request)} by name`, () =>
      assert.match(refusedAt(place, () => chatOf(request)).message, message));
});

describe("a chat engine's answer as a response", () => {
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

  it("has every field of its protocol", () => {
    const request = { instructions: "be brief", temperature: 0, metadata: { a: "b" } };
    const {
      id,
      created_at: created,
      completed_at: completed,
      output,
      ...rest
    } = answerOf(chat({ content: "hello" }), request);
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

  it("does not repeat a request of any length", () => {
    const response = answerOf(chat({ content: "x" }), { instructions: "long ".repeat(20_000), metadata: { a: "b" } });
    assert.ok(JSON.stringify(response).length < 2000);
  });

  it("has thoughts, text, refusal and calls in that order, and says where it was cut", () => {
    const calls = [toolCall("a", "city"), { function: { name: "city", arguments: '{"x"' } }];
    const message = { reasoning_content: "hm", content: "well", refusal: "no", tool_calls: calls };
    const response = answerOf(chat(message, "length"));
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

  it("has an id of its own for each call to which the engine gave an empty one, whole and as a stream", () => {
    const calls = [0, 1].map((index) => ({ ...toolCall("", "city"), index }));
    const sent = data({ choices: [{ delta: { tool_calls: calls }, finish_reason: "tool_calls" }] }) + done;
    for (const each of [
      JSON.stringify(answerOf(chat({ tool_calls: calls }))),
      through(opened({ stream: true }).translation, sent),
    ])
      assert.equal(new Set(each.match(/"call_id":"call_[0-9a-f]{32}"/g)).size, 2, each);
  });

  it("is the engine's failure where it is no chat", () => {
    for (const body of [{}, { choices: [] }, "no"])
      assert.equal(
        failureOf(() => new ResponsesTranslation(nothingKept).answer(encode(body))).code,
        "dispatch.upstream_failed",
      );
  });
});
