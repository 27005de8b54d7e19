import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ResponseCreateParamsNonStreaming } from "openai/resources/responses/responses";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { decode, encode, failureOf, nothingKept } from "./bodies.ts";

const base = { model: "primary" };
const hello = { role: "user", content: "hello" };

function chatOf(request: object): unknown {
  return decode(new ResponsesTranslation(nothingKept).request(encode({ ...base, input: "hello", ...request })));
}

function answerOf(chat: object, request: object = {}): unknown {
  const translation = new ResponsesTranslation(nothingKept);
  translation.request(encode({ ...base, input: "hello", ...request }));
  return decode(translation.answer(encode(chat)));
}

const city = { type: "function", name: "city", parameters: { type: "object" } };
const cityTool = { type: "function", function: { name: "city", parameters: { type: "object" } } };

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
  const fields: readonly (readonly [what: string, request: object, chat: object])[] = [
    ["the least there can be", {}, {}],
    ["instructions", { instructions: "be brief" }, { messages: [{ role: "system", content: "be brief" }, hello] }],
    ["sampling", { temperature: 0, top_p: 0.5, max_output_tokens: 7 }, { temperature: 0, top_p: 0.5, max_tokens: 7 }],
    [
      "what only the engine knows",
      { seed: 1, chat_template_kwargs: { enable_thinking: false } },
      { seed: 1, chat_template_kwargs: { enable_thinking: false } },
    ],
    ["nothing of what only its service has", { ...ownFields, n: 3 }, {}],
    ["how hard to think", { reasoning: { effort: "low", summary: "auto" } }, { reasoning_effort: "low" }],
    ["a stream", { stream: true }, { stream: true, stream_options: { include_usage: true } }],
    [
      "a tool",
      { tools: [{ ...city, strict: true, description: "where" }], tool_choice: "required", parallel_tool_calls: false },
      {
        tools: [
          {
            type: "function",
            function: { name: "city", description: "where", parameters: { type: "object" }, strict: true },
          },
        ],
        tool_choice: "required",
        parallel_tool_calls: false,
      },
    ],
    [
      "a certain tool",
      { tools: [city], tool_choice: { type: "function", name: "city" } },
      { tools: [cityTool], tool_choice: { type: "function", function: { name: "city" } } },
    ],
    [
      "allowed tools",
      {
        tools: [city, { ...city, name: "other" }],
        tool_choice: { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "city" }] },
      },
      { tools: [cityTool], tool_choice: "required" },
    ],
    ["a text as the form of the answer", { text: { format: { type: "text" }, verbosity: "low" } }, {}],
    ["any JSON", { text: { format: { type: "json_object" } } }, { response_format: { type: "json_object" } }],
    [
      "a schema",
      { text: { format: { type: "json_schema", name: "sky", strict: true, schema: { type: "object" } } } },
      {
        response_format: {
          type: "json_schema",
          json_schema: { name: "sky", schema: { type: "object" }, strict: true },
        },
      },
    ],
  ];
  for (const [what, request, chat] of fields) {
    it(`carries ${what}`, () => assert.deepEqual(chatOf(request), { ...base, messages: [hello], ...chat }));
  }

  const url = "data:image/png;base64,QUJD";
  const call = (id: string): object => ({
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name: "city",
    arguments: "{}",
  });
  const called = (id: string): object => ({ id, type: "function", function: { name: "city", arguments: "{}" } });
  const conversations: readonly (readonly [what: string, input: readonly object[], chat: readonly object[]])[] = [
    ["a message without its type", [hello], [hello]],
    [
      "texts as one text",
      [
        {
          type: "message",
          role: "user",
          content: [
            { type: "input_text", text: "a" },
            { type: "input_text", text: "b" },
          ],
        },
      ],
      [{ role: "user", content: "a\n\nb" }],
    ],
    [
      "images among texts",
      [
        {
          role: "user",
          content: [
            { type: "input_text", text: "look" },
            { type: "input_image", image_url: url, detail: "low" },
          ],
        },
      ],
      [
        {
          role: "user",
          content: [
            { type: "text", text: "look" },
            { type: "image_url", image_url: { url, detail: "low" } },
          ],
        },
      ],
    ],
    [
      "files as their text, sounds, and in place of the rest what it was",
      [
        {
          role: "user",
          content: [
            { type: "input_file", filename: "a.md", file_data: "data:text/markdown;base64,IyBoaQ==" },
            { type: "input_file", filename: "b.txt", file_data: "Ynll" },
            { type: "input_file", filename: "c.pdf", file_data: "data:application/pdf;base64,QUJD" },
            { type: "input_file", filename: "d", file_data: Buffer.from("%PDF-1.7").toString("base64") },
            { type: "input_file", filename: "e.bin", file_data: "AAAA" },
            { type: "input_file", file_data: "DATA:text/plain; BASE64;charset=utf-8,Ynll" },
            { type: "input_file", file_data: "data:text/plain,100%25%20%C3%A4" },
            { type: "input_file", file_data: "data:text/plain,100%" },
            { type: "input_file", file_data: `data:${"a".repeat(1_000_000)}` },
            { type: "input_file", file_id: "f" },
            { type: "input_image", file_id: "f" },
            { type: "input_video" },
            { type: "input_audio", input_audio: { data: "QUJD", format: "wav" } },
          ],
        },
      ],
      [
        {
          role: "user",
          content: [
            { type: "text", text: "a.md\n\n# hi" },
            { type: "text", text: "b.txt\n\nbye" },
            { type: "text", text: '[A document "c.pdf" of 3 bytes could not be shown to this model.]' },
            { type: "text", text: '[A document "d" of 8 bytes could not be shown to this model.]' },
            { type: "text", text: '[A document "e.bin" of 3 bytes could not be shown to this model.]' },
            { type: "text", text: "bye" },
            { type: "text", text: "100% ä" },
            { type: "text", text: "100%" },
            { type: "text", text: "[A document of 750003 bytes could not be shown to this model.]" },
            { type: "text", text: "[A document could not be shown to this model.]" },
            { type: "text", text: "[An image that is stored elsewhere could not be shown to this model.]" },
            { type: "text", text: "[Content of another type could not be shown to this model.]" },
            { type: "input_audio", input_audio: { data: "QUJD", format: "wav" } },
          ],
        },
      ],
    ],
    [
      "what leads as one system message, and what comes later as a reminder at its place",
      [
        { role: "developer", content: "a" },
        { role: "system", content: "b" },
        hello,
        { role: "developer", content: "c" },
      ],
      [
        { role: "system", content: "a\n\nb" },
        { role: "user", content: "hello\n\n<system-reminder>\nc\n</system-reminder>" },
      ],
    ],
    [
      "calls, what came of them, and the images among that",
      [
        hello,
        { type: "reasoning", id: "rs", summary: [], content: [{ type: "reasoning_text", text: "hm" }] },
        {
          type: "message",
          id: "msg",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "let me see", annotations: [] }],
        },
        call("a"),
        call("b"),
        { type: "function_call_output", call_id: "a", output: "rain" },
        {
          type: "function_call_output",
          call_id: "b",
          output: [
            { type: "input_text", text: "see" },
            { type: "input_image", image_url: url },
          ],
        },
        call("c"),
        { type: "function_call_output", call_id: "c", output: "sun" },
        { role: "assistant", content: [{ type: "refusal", refusal: "no" }] },
      ],
      [
        hello,
        { role: "assistant", content: "let me see", tool_calls: [called("a"), called("b")] },
        { role: "tool", tool_call_id: "a", content: "rain" },
        { role: "tool", tool_call_id: "b", content: "see" },
        { role: "user", content: [{ type: "image_url", image_url: { url } }] },
        { role: "assistant", content: null, tool_calls: [called("c")] },
        { role: "tool", tool_call_id: "c", content: "sun" },
        { role: "assistant", content: "no" },
      ],
    ],
    [
      "what the assistant says between a call and its output within the message of the call",
      [
        hello,
        call("a"),
        { role: "assistant", content: "working" },
        call("b"),
        { type: "function_call_output", call_id: "a", output: "1" },
        { role: "assistant", content: "still" },
        { type: "function_call_output", call_id: "b", output: "2" },
        { role: "assistant", content: "done" },
      ],
      [
        hello,
        { role: "assistant", content: "working\n\nstill", tool_calls: [called("a"), called("b")] },
        { role: "tool", tool_call_id: "a", content: "1" },
        { role: "tool", tool_call_id: "b", content: "2" },
        { role: "assistant", content: "done" },
      ],
    ],
    [
      "an output directly after its call, whoever spoke between them",
      [
        hello,
        call("a"),
        { role: "user", content: "hurry" },
        { type: "function_call_output", call_id: "a", output: [{ type: "input_image", image_url: url }] },
        { role: "assistant", content: "done" },
        { type: "function_call_output", call_id: "unknown", output: "lost" },
      ],
      [
        hello,
        { role: "assistant", content: null, tool_calls: [called("a")] },
        { role: "tool", tool_call_id: "a", content: "" },
        { role: "user", content: [{ type: "image_url", image_url: { url } }] },
        { role: "user", content: "hurry" },
        { role: "assistant", content: "done" },
        { role: "tool", tool_call_id: "unknown", content: "lost" },
      ],
    ],
  ];
  for (const [what, input, messages] of conversations) {
    it(`carries ${what}`, () => assert.deepEqual(chatOf({ input }), { ...base, messages }));
  }

  const refused: readonly (readonly [request: object, path: readonly (string | number)[], message: RegExp])[] = [
    [{ input: undefined }, ["input"], /must be a text or a list of items/],
    [{ input: [] }, ["input"], /at least one item/],
    [
      { previous_response_id: "resp_1" },
      ["previous_response_id"],
      /^previous_response_id: .*not stored here: send the whole/,
    ],
    [{ conversation: "conv_1" }, ["conversation"], /^conversation: conversation is not possible/],
    [{ conversation: { id: "conv_1" } }, ["conversation"], /not possible/],
    [{ prompt: { id: "pmpt_1" } }, ["prompt"], /templates are not stored here/],
    [{ background: true }, ["background"], /background is not possible/],
    [{ include: ["message.output_text.logprobs"] }, ["include", 0], /chat\/completions has logprobs/],
    [{ max_output_tokens: 0 }, ["max_output_tokens"], /at least 1/],
    [{ text: { format: { type: "grammar" } } }, ["text", "format", "type"], /json_schema/],
    [{ tools: [{ type: "function" }] }, ["tools", 0, "name"], /is required/],
    [{ tools: [{ name: "city" }] }, ["tools", 0, "type"], /must be a text/],
    [
      { input: [{ type: "item_reference", id: "msg_1" }] },
      ["input", 0],
      /names an item that is not stored here \(any more\): .*store: false$/,
    ],
    [
      { input: [{ type: "computer_call" }, { type: "made_up_by_me" }] },
      ["input"],
      /^input: holds nothing that can be passed to this engine: computer_call, another type$/,
    ],
    [{ input: [{ type: "function_call" }] }, ["input", 0, "call_id"], /is required/],
  ];
  for (const [request, path, message] of refused) {
    it(`refuses ${JSON.stringify(request)} by name`, () => {
      const failure = failureOf(() => chatOf(request));
      assert.equal(failure.code, "dispatch.invalid_request");
      assert.deepEqual(failure.details?.["path"], path);
      assert.match(failure.message, message);
    });
  }
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
    const response = answerOf(chat({ content: "hello" }), {
      instructions: "be brief",
      temperature: 0,
      metadata: { a: "b" },
    });
    assert.ok(typeof response === "object" && response !== null);
    const {
      id,
      created_at: created,
      completed_at: completed,
      output,
      ...rest
    } = { created_at: 0, completed_at: 0, id: "", output: [{ id: "" }], ...response };
    assert.match(id, /^resp_[0-9a-f]{32}$/);
    assert.match(output[0]?.id ?? "", /^msg_[0-9a-f]{32}$/);
    assert.ok(created > 1.7e9 && completed >= created);
    assert.deepEqual(output, [
      {
        id: output[0]?.id,
        type: "message",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", annotations: [], logprobs: [], text: "hello" }],
      },
    ]);
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
    const message = {
      reasoning_content: "hm",
      content: "well",
      refusal: "no",
      tool_calls: [
        { id: "a", function: { name: "city", arguments: "{}" } },
        { function: { name: "city", arguments: '{"x"' } },
      ],
    };
    const response = answerOf(chat(message, "length"));
    assert.ok(
      typeof response === "object" && response !== null && "output" in response && Array.isArray(response.output),
    );
    assert.ok("status" in response && "incomplete_details" in response);
    assert.deepEqual([response.status, response.incomplete_details], ["incomplete", { reason: "max_output_tokens" }]);
    const [thoughts, text, first, second] = response.output.map(({ id: _id, ...item }) => item);
    assert.deepEqual(thoughts, {
      type: "reasoning",
      summary: [],
      content: [{ type: "reasoning_text", text: "hm" }],
      status: "completed",
    });
    assert.deepEqual(
      text.content.map(({ type }: { type: string }) => type),
      ["output_text", "refusal"],
    );
    assert.deepEqual(first, {
      type: "function_call",
      status: "completed",
      call_id: "a",
      name: "city",
      arguments: "{}",
    });
    assert.match(second.call_id, /^call_/);
    assert.equal(second.status, "incomplete");
  });

  it("has an id of its own for each call to which the engine gave an empty one, whole and as a stream", () => {
    const calls = [0, 1].map((index) => ({ index, id: "", function: { name: "city", arguments: "{}" } }));
    const streamed = new ResponsesTranslation(nothingKept);
    streamed.request(encode({ ...base, input: "hello", stream: true }));
    const delta = { tool_calls: calls };
    const sent = `data: ${JSON.stringify({ choices: [{ delta, finish_reason: "tool_calls" }] })}\n\ndata: [DONE]\n\n`;
    for (const text of [
      JSON.stringify(answerOf(chat({ tool_calls: calls }))),
      String(streamed.stream.push(Buffer.from(sent))),
    ])
      assert.equal(new Set(text.match(/"call_id":"call_[0-9a-f]{32}"/g)).size, 2, text);
  });

  it("is the engine's failure where it is no chat", () => {
    for (const body of [{}, { choices: [] }, "no"])
      assert.equal(
        failureOf(() => new ResponsesTranslation(nothingKept).answer(encode(body))).code,
        "dispatch.upstream_failed",
      );
  });
});
