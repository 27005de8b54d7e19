import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import { decode, encode, failureOf } from "./bodies.ts";

const base = { model: "primary", max_tokens: 100 };
const hello = { role: "user", content: "hello" };

function chatOf(request: object): unknown {
  return decode(new MessagesTranslation().request(encode({ ...base, messages: [hello], ...request })));
}

describe("a Messages request for a chat engine", () => {
  const fields: readonly (readonly [what: string, request: object, chat: object])[] = [
    ["the least there can be", {}, {}],
    ["a system text", { system: "be brief" }, { messages: [{ role: "system", content: "be brief" }, hello] }],
    [
      "system blocks",
      {
        system: [
          { type: "text", text: "a", cache_control: { type: "ephemeral" } },
          { type: "text", text: "b" },
        ],
      },
      { messages: [{ role: "system", content: "a\n\nb" }, hello] },
    ],
    ["an empty system text", { system: "" }, {}],
    [
      "sampling",
      { temperature: 0, top_p: 0.5, top_k: 3, stop_sequences: ["END"] },
      { temperature: 0, top_p: 0.5, top_k: 3, stop: ["END"] },
    ],
    ["nulls and nothing", { temperature: null, stop_sequences: [], tools: null, tool_choice: null }, {}],
    ["what means nothing to it", { metadata: { user_id: "u" }, thinking: { type: "enabled", budget_tokens: 9 } }, {}],
    ["a stream", { stream: true }, { stream: true, stream_options: { include_usage: true } }],
    ["no stream", { stream: false }, {}],
    [
      "a tool",
      { tools: [{ name: "t", description: "does", input_schema: { type: "object" } }] },
      { tools: [{ type: "function", function: { name: "t", description: "does", parameters: { type: "object" } } }] },
    ],
    [
      "a tool without a description",
      { tools: [{ type: "custom", name: "t", input_schema: {} }] },
      { tools: [{ type: "function", function: { name: "t", parameters: {} } }] },
    ],
    ["any choice of tools", { tool_choice: { type: "auto" } }, { tool_choice: "auto" }],
    ["a must", { tool_choice: { type: "any" } }, { tool_choice: "required" }],
    ["none", { tool_choice: { type: "none" } }, { tool_choice: "none" }],
    [
      "a certain tool, one at a time",
      { tool_choice: { type: "tool", name: "t", disable_parallel_tool_use: true } },
      { tool_choice: { type: "function", function: { name: "t" } }, parallel_tool_calls: false },
    ],
    [
      "a form of the answer",
      { output_config: { format: { type: "json_schema", schema: { type: "object" } } } },
      {
        response_format: {
          type: "json_schema",
          json_schema: { name: "output", schema: { type: "object" }, strict: true },
        },
      },
    ],
  ];
  for (const [what, request, chat] of fields) {
    it(`carries ${what}`, () => assert.deepEqual(chatOf(request), { ...base, messages: [hello], ...chat }));
  }

  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } };
  const imagePart = { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } };
  const text = (words: string): object => ({ type: "text", text: words });
  const conversations: readonly (readonly [what: string, messages: readonly object[], chat: readonly object[]])[] = [
    ["texts as one text", [{ role: "user", content: [text("a"), text("b")] }], [{ role: "user", content: "a\n\nb" }]],
    [
      "images among texts",
      [
        {
          role: "user",
          content: [text("look"), image, { type: "image", source: { type: "url", url: "https://x/y" } }],
        },
      ],
      [{ role: "user", content: [text("look"), imagePart, { type: "image_url", image_url: { url: "https://x/y" } }] }],
    ],
    [
      "documents of plain text",
      [
        {
          role: "user",
          content: [{ type: "document", title: "T", source: { type: "text", media_type: "text/plain", data: "D" } }],
        },
      ],
      [{ role: "user", content: "T\n\nD" }],
    ],
    [
      "calls and results of tools",
      [
        hello,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "" },
            text("let me see"),
            { type: "tool_use", id: "t1", name: "read", input: { path: "/" } },
            { type: "tool_use", id: "t2", name: "list" },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "t1", content: "one" },
            { type: "tool_result", tool_use_id: "t2", content: [text("two"), image], is_error: false },
            text("go on"),
          ],
        },
      ],
      [
        hello,
        {
          role: "assistant",
          content: "let me see",
          tool_calls: [
            { id: "t1", type: "function", function: { name: "read", arguments: '{"path":"/"}' } },
            { id: "t2", type: "function", function: { name: "list", arguments: "{}" } },
          ],
        },
        { role: "tool", tool_call_id: "t1", content: "one" },
        { role: "tool", tool_call_id: "t2", content: "two" },
        { role: "user", content: [imagePart, text("go on")] },
      ],
    ],
    [
      "results alone, empty and failed",
      [
        { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "x", input: {} }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "t1" },
            { type: "tool_result", tool_use_id: "t2", is_error: true },
            { type: "tool_result", tool_use_id: "t3", is_error: true, content: "no such file" },
          ],
        },
      ],
      [
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "t1", type: "function", function: { name: "x", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "t1", content: "" },
        { role: "tool", tool_call_id: "t2", content: "The tool failed." },
        { role: "tool", tool_call_id: "t3", content: "no such file" },
      ],
    ],
    [
      "an answer begun, and one of thoughts alone",
      [
        hello,
        { role: "assistant", content: [{ type: "redacted_thinking", data: "x" }] },
        { role: "assistant", content: "Sure," },
      ],
      [hello, { role: "assistant", content: "" }, { role: "assistant", content: "Sure," }],
    ],
    [
      "system messages in between where every template takes them",
      [
        { role: "system", content: "first" },
        { role: "user", content: [text("look"), { type: "image", source: { type: "url", url: "data:," } }] },
        { role: "system", content: [text("a")] },
        { role: "assistant", content: "yes" },
        { role: "system", content: "b" },
        hello,
        { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "x", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "done" }] },
        { role: "system", content: "c" },
      ],
      [
        { role: "system", content: "first" },
        {
          role: "user",
          content: [
            text("look"),
            { type: "image_url", image_url: { url: "data:," } },
            text("<system-reminder>\na\n</system-reminder>"),
          ],
        },
        { role: "assistant", content: "yes" },
        { role: "user", content: "<system-reminder>\nb\n</system-reminder>\n\nhello" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "t1", type: "function", function: { name: "x", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "t1", content: "done\n\n<system-reminder>\nc\n</system-reminder>" },
      ],
    ],
    [
      "a system message between calls and their results",
      [
        hello,
        {
          role: "assistant",
          content: [
            { type: "tool_use", id: "t1", name: "x", input: {} },
            { type: "tool_use", id: "t2", name: "x", input: {} },
          ],
        },
        { role: "system", content: "a" },
        { role: "system", content: "b" },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "t1", content: "done" },
            { type: "tool_result", tool_use_id: "t2", content: "done too" },
            text("go on"),
          ],
        },
      ],
      [
        hello,
        {
          role: "assistant",
          content: null,
          tool_calls: ["t1", "t2"].map((id) => ({ id, type: "function", function: { name: "x", arguments: "{}" } })),
        },
        { role: "tool", tool_call_id: "t1", content: "done" },
        {
          role: "tool",
          tool_call_id: "t2",
          content: "done too\n\n<system-reminder>\na\n</system-reminder>\n\n<system-reminder>\nb\n</system-reminder>",
        },
        { role: "user", content: "go on" },
      ],
    ],
    [
      "a system message after calls without results",
      [
        hello,
        { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "x", input: {} }] },
        { role: "system", content: "a" },
        hello,
        { role: "system", content: "b" },
      ],
      [
        hello,
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "t1", type: "function", function: { name: "x", arguments: "{}" } }],
        },
        {
          role: "user",
          content: "<system-reminder>\na\n</system-reminder>\n\nhello\n\n<system-reminder>\nb\n</system-reminder>",
        },
      ],
    ],
    [
      "the size of a document of many bytes",
      [{ role: "user", content: [{ type: "document", source: { type: "base64", data: "AAAA".repeat(100_000) } }] }],
      [{ role: "user", content: "[A document of 300000 bytes could not be shown to this model.]" }],
    ],
    [
      "the text of a file",
      [{ role: "user", content: [{ type: "document", title: "a", source: { type: "base64", data: "aGk=" } }] }],
      [{ role: "user", content: "a\n\nhi" }],
    ],
    ["nothing", [{ role: "user", content: [] }], [{ role: "user", content: "" }]],
    [
      "what stays in a history, as text where it cannot be shown",
      [
        {
          role: "assistant",
          content: [
            { type: "server_tool_use", id: "s1", name: "web_search", input: { query: "x" } },
            { type: "web_search_tool_result", tool_use_id: "s1", content: [] },
            text("found"),
            { type: "tool_use", id: "t1", name: "read", input: {} },
          ],
        },
        {
          role: "user",
          content: [
            {
              type: "tool_result",
              tool_use_id: "t1",
              content: [
                { type: "tool_reference", tool_name: "list" },
                {
                  type: "document",
                  title: "a.pdf",
                  source: { type: "base64", media_type: "application/pdf", data: "QUJD" },
                },
                { type: "search_result", title: "T", source: "https://x", content: [text("S")] },
              ],
            },
            { type: "document", source: { type: "file", file_id: "f" } },
            { type: "document", source: { type: "content", content: [text("D")] } },
            { type: "image", source: { type: "file", file_id: "f" } },
            { type: "container_upload", file_id: "f" },
            { type: "video" },
          ],
        },
      ],
      [
        {
          role: "assistant",
          content: "found",
          tool_calls: [{ id: "t1", type: "function", function: { name: "read", arguments: "{}" } }],
        },
        {
          role: "tool",
          tool_call_id: "t1",
          content: 'list\n\n[A document "a.pdf" of 3 bytes could not be shown to this model.]\n\nT\nhttps://x\n\nS',
        },
        {
          role: "user",
          content: [
            "[A document could not be shown to this model.]",
            "D",
            "[An image that is stored elsewhere could not be shown to this model.]",
            "[Content of the type container_upload could not be shown to this model.]",
            "[Content of another type could not be shown to this model.]",
          ].join("\n\n"),
        },
      ],
    ],
  ];
  for (const [what, messages, chat] of conversations) {
    it(`carries ${what}`, () => assert.deepEqual(chatOf({ messages }), { ...base, messages: chat }));
  }

  const refused: readonly (readonly [request: object, message: string])[] = [
    [{ messages: undefined }, "messages: is required"],
    [{ messages: [] }, "messages: must hold at least one message"],
    [{ messages: [{ role: "tool", content: "x" }] }, 'messages.0.role: must be "user", "assistant" or "system"'],
    [{ messages: [{ role: "user", content: 5 }] }, "messages.0.content: must be a text or a list of blocks"],
    [{ messages: [{ role: "user", content: [{ type: "text" }] }] }, "messages.0.content.0.text: is required"],
    [{ messages: [{ role: "user", content: [{ text: "x" }] }] }, "messages.0.content.0.type: must be a text"],
    [{ max_tokens: undefined }, "max_tokens: must be a whole number, at least 1"],
    [{ max_tokens: 0 }, "max_tokens: must be a whole number, at least 1"],
    [{ system: 5 }, "system: must be a text or a list of text blocks"],
    [{ tools: [{ name: "read" }] }, "tools.0.input_schema: is required"],
    ...[{ type: "tool", name: "web_search" }, { type: "any" }].map((choice): [object, string] => [
      { tools: [{ type: "web_search_20260318", name: "web_search" }], tool_choice: choice },
      "tool_choice: demands a call of a tool that runs in Anthropic's service: only tools of the client's own can be called here",
    ]),
    [{ tool_choice: { type: "some" } }, 'tool_choice.type: must be "auto", "any", "tool" or "none"'],
    [{ output_config: { format: { type: "xml", schema: {} } } }, 'output_config.format.type: must be "json_schema"'],
  ];
  for (const [request, message] of refused) {
    it(`is refused: ${message}`, () => {
      const error = failureOf(() => chatOf(request));
      assert.deepEqual([error.code, error.message], ["dispatch.invalid_request", message]);
      const path = error.details?.["path"];
      assert.ok(Array.isArray(path) && message.startsWith(`${path.join(".")}: `));
    });
  }

  it("lacks tools and records of Anthropic's service, and names them", () => {
    const translation = new MessagesTranslation();
    const search = { type: "web_search_20260318", name: "web_search" };
    const chat = decode(
      translation.request(
        encode({
          ...base,
          messages: [
            hello,
            { role: "assistant", content: [{ type: "server_tool_use", id: "s", name: "web_search", input: {} }] },
            hello,
          ],
          tools: [search, search, { name: "read", input_schema: {} }],
          tool_choice: { type: "any" },
        }),
      ),
    );
    assert.deepEqual(chat, {
      ...base,
      messages: [hello, { role: "assistant", content: "" }, hello],
      tools: [{ type: "function", function: { name: "read", parameters: {} } }],
      tool_choice: "required",
    });
    assert.deepEqual(translation.leftOut, ["web_search", "server_tool_use"]);
  });

  it("is refused when it is no JSON object", () => {
    for (const body of ["", "{", "[]", "null"]) {
      assert.equal(failureOf(() => new MessagesTranslation().request(encode(body))).code, "dispatch.invalid_request");
    }
  });
});

describe("a chat engine's answer as a Message", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
  function answerOf(
    message: object,
    choice: object = {},
    rest: object = {},
    request: object = {},
  ): Record<string, unknown> {
    const translation = new MessagesTranslation();
    translation.request(encode({ ...base, messages: [hello], ...request }));
    const choices = [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop", ...choice }];
    const answer = decode(translation.answer(encode({ id: "chatcmpl-1", model: "engine", choices, usage, ...rest })));
    assert.ok(typeof answer === "object" && answer !== null);
    return { ...answer };
  }

  it("has the text, model, usage and stop reason in their fields", () => {
    assert.deepEqual(answerOf({ content: "Hello." }), {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "primary",
      content: [{ type: "text", text: "Hello." }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { input_tokens: 9, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 4 },
    });
  });

  const call = (args: string): object => ({ id: "c1", type: "function", function: { name: "read", arguments: args } });
  const stops: readonly (readonly [message: object, choice: object, reason: string, sequence: string | null])[] = [
    [{ content: "x" }, { finish_reason: "length" }, "max_tokens", null],
    [{ content: "x" }, { finish_reason: "content_filter" }, "refusal", null],
    [{ content: "x" }, { finish_reason: null }, "end_turn", null],
    [{ content: "x" }, { stop_reason: "END" }, "stop_sequence", "END"],
    [{ content: "x" }, { stop_reason: 151_645 }, "end_turn", null],
    [{ content: null, tool_calls: [call("{}")] }, { finish_reason: "tool_calls" }, "tool_use", null],
    [{ content: null, tool_calls: [call("{}")] }, { finish_reason: "stop" }, "tool_use", null],
    [{ content: null, tool_calls: [call("{}")] }, { finish_reason: "length" }, "max_tokens", null],
  ];
  for (const [message, choice, reason, sequence] of stops) {
    it(`has the stop reason ${reason} for ${JSON.stringify(choice)}`, () => {
      const answer = answerOf(message, choice);
      assert.deepEqual([answer["stop_reason"], answer["stop_sequence"]], [reason, sequence]);
    });
  }

  it("has calls of tools after the text", () => {
    const calls = [call('{"a":1}'), { ...call(""), id: undefined }, { ...call(""), id: "" }];
    const answer = answerOf({ content: "wait", tool_calls: calls });
    assert.deepEqual(answer["content"], [
      { type: "text", text: "wait" },
      { type: "tool_use", id: "c1", name: "read", input: { a: 1 } },
      { type: "tool_use", id: "msg_1_1", name: "read", input: {} },
      { type: "tool_use", id: "msg_1_2", name: "read", input: {} },
    ]);
  });

  it("is no failure where the limit of tokens cuts its last call: the call has no input", () => {
    const calls = [call('{"a":1}'), call('{"a":')];
    const cut = answerOf({ tool_calls: calls }, { finish_reason: "length" });
    const tool = { type: "tool_use", id: "c1", name: "read" };
    assert.deepEqual(
      [cut["content"], cut["stop_reason"]],
      [
        [
          { ...tool, input: { a: 1 } },
          { ...tool, input: {} },
        ],
        "max_tokens",
      ],
    );
    for (const [broken, finish] of [
      [calls.toReversed(), "length"],
      [[call("5")], "length"],
      [calls, "stop"],
    ] as const)
      assert.match(
        failureOf(() => answerOf({ tool_calls: broken }, { finish_reason: finish })).message,
        /no JSON object as input/,
      );
  });

  it("has the model's thoughts where the client requested them", () => {
    const message = { content: "x", reasoning_content: "hm" };
    const thinking = { thinking: { type: "enabled", budget_tokens: 1024 } };
    const text = { type: "text", text: "x" };
    assert.deepEqual(answerOf(message, {}, {}, thinking)["content"], [
      { type: "thinking", thinking: "hm", signature: "" },
      text,
    ]);
    assert.deepEqual(answerOf(message)["content"], [text]);
    assert.deepEqual(answerOf(message, {}, {}, { thinking: { type: "disabled" } })["content"], [text]);
  });

  it("has the text and the thoughts of content that is a list of parts", () => {
    const content = [
      { type: "thinking", thinking: "hm" },
      { type: "text", text: "x" },
      { type: "text", text: "y" },
    ];
    assert.deepEqual(answerOf({ content }, {}, {}, { thinking: { type: "adaptive" } })["content"], [
      { type: "thinking", thinking: "hm", signature: "" },
      { type: "text", text: "xy" },
    ]);
  });

  it("has no content for an empty answer, and a text for a refusal", () => {
    assert.deepEqual(answerOf({ content: "" })["content"], []);
    assert.deepEqual(answerOf({ content: null, refusal: "no" })["content"], [{ type: "text", text: "no" }]);
  });

  it("counts cached tokens separately, and none where the engine counts none", () => {
    const cached = { usage: { ...usage, prompt_tokens_details: { cached_tokens: 7 } } };
    const none = { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
    assert.deepEqual(answerOf({ content: "" }, {}, cached)["usage"], {
      ...none,
      input_tokens: 2,
      cache_read_input_tokens: 7,
      output_tokens: 4,
    });
    assert.deepEqual(answerOf({ content: "" }, {}, { usage: undefined })["usage"], none);
  });

  const garbage: readonly unknown[] = ["<html>", null, {}, { choices: [] }, { choices: [{ message: { content: 5 } }] }];
  for (const body of garbage) {
    it(`is a failure of the engine when it is ${JSON.stringify(body)}`, () => {
      assert.equal(failureOf(() => new MessagesTranslation().answer(encode(body))).code, "dispatch.upstream_failed");
    });
  }

  for (const args of ["{", "5", '"x"', "null"]) {
    it(`is a failure of the engine when the input of a call is ${args}`, () => {
      const error = failureOf(() => answerOf({ tool_calls: [call(args)] }));
      assert.equal(error.message, "the engine's tool call has no JSON object as input");
    });
  }
});
