import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { assistant, briefly, hello, text, tool, toolCall, toolResult, usage, user } from "./bodies.ts";
import { exchanging } from "./site.ts";

const base = { model: "primary", max_tokens: 100, messages: [hello] };
const served = { model: "engine-model", max_tokens: 100 };

describe("a Messages request for a chat engine", () => {
  const ask = exchanging("/v1/messages", base);
  const system = (content: unknown): object => ({ role: "system", content });
  const schema = { type: "object" };
  const fields: readonly (readonly [what: string, request: object, chat: object])[] = [
    ["the least there can be", {}, {}],
    ["a system text", { system: "be brief" }, { messages: [system("be brief"), hello] }],
    ["nulls and nothing", { system: "", top_p: null, stop_sequences: [], tools: null, tool_choice: null }, {}],
    ["any choice of tools", { tool_choice: { type: "auto" }, stream: false }, { tool_choice: "auto" }],
    ["a must", { tool_choice: { type: "any" } }, { tool_choice: "required" }],
    ["none", { tool_choice: { type: "none" } }, { tool_choice: "none" }],
    [
      "all that a chat has too, and nothing of the rest",
      {
        system: [{ ...text("a"), cache_control: { type: "ephemeral" } }, text("b")],
        temperature: 0,
        top_p: 0.5,
        top_k: 3,
        stop_sequences: ["END"],
        stream: true,
        metadata: { user_id: "u" },
        thinking: { type: "enabled", budget_tokens: 9 },
        tools: [
          { name: "t", description: "does", input_schema: schema },
          { type: "custom", name: "u", input_schema: {} },
        ],
        tool_choice: { type: "tool", name: "t", disable_parallel_tool_use: true },
        output_config: { format: { type: "json_schema", schema } },
      },
      {
        messages: [system("a\n\nb"), hello],
        temperature: 0,
        top_p: 0.5,
        top_k: 3,
        stop: ["END"],
        stream: true,
        stream_options: { include_usage: true },
        tools: [tool("t", { description: "does", parameters: schema }), tool("u", { parameters: {} })],
        tool_choice: tool("t", {}),
        parallel_tool_calls: false,
        response_format: { type: "json_schema", json_schema: { name: "output", schema, strict: true } },
      },
    ],
  ];
  for (const [what, request, chat] of fields)
    it(`carries ${what}`, async () =>
      assert.deepEqual((await ask(request)).sent, { ...served, messages: [hello], ...chat }));

  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } };
  const imageAt = (url: string): object => ({ type: "image", source: { type: "url", url } });
  const imagePart = (url = "data:image/png;base64,QUJD"): object => ({ type: "image_url", image_url: { url } });
  const file = (source: object, title?: string): object => ({ type: "document", title, source });
  const bytes = (data: string, title?: string): object => file({ type: "base64", data }, title);
  const use = (id: string, name = "x", input?: object): object => ({ type: "tool_use", id, name, input });
  const result = (id: string, content?: unknown, isError?: boolean): object => ({
    type: "tool_result",
    tool_use_id: id,
    content,
    is_error: isError,
  });
  const lost = (what: string): string => `[${what} could not be shown to this model.]`;
  const contents: readonly (readonly [content: readonly object[], shown: unknown])[] = [
    [[text("a"), text("b")], "a\n\nb"],
    [[], ""],
    [
      [text("look"), image, imageAt("https://x/y")],
      [text("look"), imagePart(), imagePart("https://x/y")],
    ],
    [[file({ type: "text", media_type: "text/plain", data: "D" }, "T")], "T\n\nD"],
    [[bytes("aGk=", "a")], "a\n\nhi"],
    [[bytes("AAAA".repeat(100_000))], lost("A document of 300000 bytes")],
    [[file({ type: "file", file_id: "f" })], lost("A document")],
    [[file({ type: "content", content: [text("D")] })], "D"],
    [[{ type: "image", source: { type: "file", file_id: "f" } }], lost("An image that is stored elsewhere")],
    [[{ type: "container_upload", file_id: "f" }], lost("Content of the type container_upload")],
    [[{ type: "video" }], lost("Content of another type")],
  ];
  it("carries content in the form of a chat, or as text where it cannot be shown", async () => {
    for (const [content, shown] of contents)
      assert.deepEqual((await ask({ messages: [user(content)] })).sent["messages"], [user(shown)]);
  });

  it("carries calls and results of tools in their order", async () => {
    const { sent } = await ask({
      messages: [
        hello,
        assistant([
          { type: "thinking", thinking: "hm", signature: "" },
          text("let me see"),
          use("t1", "read", { path: "/" }),
          use("t2", "list"),
        ]),
        user([result("t1", "one"), result("t2", [text("two"), image], false), text("go on")]),
      ],
    });
    assert.deepEqual(sent["messages"], [
      hello,
      assistant("let me see", toolCall("t1", "read", '{"path":"/"}'), toolCall("t2", "list")),
      toolResult("t1", "one"),
      toolResult("t2", "two"),
      user([imagePart(), text("go on")]),
    ]);
  });

  const pdf = file({ type: "base64", media_type: "application/pdf", data: "QUJD" }, "a.pdf");
  const found = { type: "search_result", title: "T", source: "https://x", content: [text("S")] };
  const ownCall = { type: "server_tool_use", id: "s1", name: "web_search", input: { query: "x" } };
  const ownResult = { type: "web_search_tool_result", tool_use_id: "s1", content: [] };
  const reference = { type: "tool_reference", tool_name: "list" };
  const two = assistant([use("t1"), use("t2")]);
  const conversations: readonly (readonly [what: string, messages: readonly object[], chat: readonly string[]])[] = [
    [
      "results that are empty or failed",
      [user([result("t1"), result("t2", undefined, true), result("t3", "no such file", true)])],
      ["toolt1:", "toolt2: The tool failed.", "toolt3: no such file"],
    ],
    [
      "an answer begun, and one of thoughts alone",
      [hello, assistant([{ type: "redacted_thinking", data: "x" }]), assistant("Sure,")],
      ["user: hello", "assistant:", "assistant: Sure,"],
    ],
    [
      "system messages in between where every template takes them",
      [
        system("first"),
        user([text("look"), imageAt("data:,")]),
        system([text("a")]),
        assistant("yes"),
        system("b"),
        hello,
      ],
      ["system: first", 'user: [look | {"image_url":{"url":"data:,"}} | <a>]', "assistant: yes", "user: <b>/hello"],
    ],
    [
      "a system message between calls and their results",
      [two, system("a"), system("b"), user([result("t1", "done"), result("t2", "done too"), text("go on")])],
      ["assistant: t1=x({}) t2=x({})", "toolt1: done", "toolt2: done too/<a>/<b>", "user: go on"],
    ],
    [
      "a system message after calls without results, and after results",
      [two, system("a"), hello, system("b"), user([result("t1", "done")]), system("c")],
      ["assistant: t1=x({}) t2=x({})", "user: <a>/hello/<b>", "toolt1: done/<c>"],
    ],
    [
      "what stays in a history of Anthropic's own tools",
      [
        assistant([ownCall, ownResult, text("found"), use("t1", "read", {})]),
        user([result("t1", [reference, pdf, found])]),
      ],
      ["assistant: found t1=read({})", `toolt1: list/${lost('A document "a.pdf" of 3 bytes')}/T\nhttps://x/S`],
    ],
  ];
  for (const [what, messages, chat] of conversations)
    it(`carries ${what}`, async () => assert.deepEqual(briefly((await ask({ messages })).sent["messages"]), chat));

  const search = { type: "web_search_20260318", name: "web_search" };
  it("lacks tools and records of Anthropic's service, and names them", async () => {
    const { sent, leftOut } = await ask({
      messages: [hello, assistant([{ type: "server_tool_use", id: "s", name: "web_search", input: {} }]), hello],
      tools: [search, search, { name: "read", input_schema: {} }],
      tool_choice: { type: "any" },
    });
    const tools = [tool("read", { parameters: {} })];
    const messages = [hello, assistant(""), hello];
    assert.deepEqual(sent, { ...served, messages, tools, tool_choice: "required" });
    assert.equal(leftOut, "web_search, server_tool_use");
  });
});

describe("a chat engine's answer as a Message", () => {
  const ask = exchanging("/v1/messages", base);
  interface Chat {
    readonly finish?: string | null;
    readonly stop?: unknown;
    readonly usage?: object | undefined;
    readonly thinking?: object;
  }
  const exchanged = (message: object, { finish = "stop", stop, thinking, ...rest }: Chat = {}) => {
    const choice = { index: 0, message: { role: "assistant", ...message }, finish_reason: finish, stop_reason: stop };
    return ask({ thinking }, { id: "chatcmpl-1", model: "engine", choices: [choice], usage, ...rest });
  };
  const read = (args: string): object => toolCall("c1", "read", args);
  const used = (input: object, id = "c1"): object => ({ type: "tool_use", id, name: "read", input });
  const none = { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
  const x = text("x");
  const thought = { type: "thinking", thinking: "hm", signature: "" };
  const parts = [{ type: "thinking", thinking: "hm" }, x, text("y")];

  it("has the text, model, usage and stop reason in their fields", async () => {
    assert.deepEqual((await exchanged({ content: "Hello." })).answer, {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "primary",
      content: [text("Hello.")],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: { ...none, input_tokens: 9, output_tokens: 4 },
    });
  });

  const cached = { ...usage, prompt_tokens_details: { cached_tokens: 7 } };
  const thoughtful = { content: "x", reasoning_content: "hm" };
  const answers: readonly (readonly [what: string, message: object, chat: Chat, fields: object])[] = [
    ["the limit of tokens", { content: "x" }, { finish: "length" }, { stop_reason: "max_tokens" }],
    ["a filter as a refusal", { content: "x" }, { finish: "content_filter" }, { stop_reason: "refusal" }],
    ["no reason as the end of the turn", { content: "x" }, { finish: null }, { stop_reason: "end_turn" }],
    ["the stop sequence", { content: "x" }, { stop: "END" }, { stop_reason: "stop_sequence", stop_sequence: "END" }],
    ["no token as a stop sequence", { content: "x" }, { stop: 151_645 }, { stop_reason: "end_turn" }],
    ["a call at a stop", { content: null, tool_calls: [read("{}")] }, {}, { stop_reason: "tool_use" }],
    [
      "calls after the text, each with an id",
      { content: "wait", tool_calls: [read('{"a":1}'), tool("read", { arguments: "" }), { ...read(""), id: "" }] },
      {},
      { content: [text("wait"), used({ a: 1 }), used({}, "msg_1_1"), used({}, "msg_1_2")] },
    ],
    [
      "a last call that the limit of tokens cut, without input",
      { tool_calls: [read('{"a":1}'), read('{"a":')] },
      { finish: "length" },
      { content: [used({ a: 1 }), used({})], stop_reason: "max_tokens" },
    ],
    ["thoughts that were asked for", thoughtful, { thinking: { type: "enabled" } }, { content: [thought, x] }],
    ["no thoughts that were not", thoughtful, {}, { content: [x] }],
    ["no thoughts where they are disabled", thoughtful, { thinking: { type: "disabled" } }, { content: [x] }],
    [
      "text and thoughts of a list of parts",
      { content: parts },
      { thinking: { type: "adaptive" } },
      { content: [thought, text("xy")] },
    ],
    ["no content for an empty answer", { content: "" }, {}, { content: [] }],
    ["a text for a refusal", { content: null, refusal: "no" }, {}, { content: [text("no")] }],
    [
      "cached tokens separately",
      { content: "" },
      { usage: cached },
      { usage: { ...none, input_tokens: 2, cache_read_input_tokens: 7, output_tokens: 4 } },
    ],
    ["no tokens where the engine counts none", { content: "" }, { usage: undefined }, { usage: none }],
  ];
  for (const [what, message, chat, fields] of answers)
    it(`has ${what}`, async () => {
      const { answer } = await exchanged(message, chat);
      assert.deepEqual(answer, { ...answer, ...fields });
    });

  it("is a failure of the engine where it is no chat, or where the input of a call is no JSON object", async () => {
    for (const body of [{}, { choices: [] }, { choices: [{ message: { content: 5 } }] }])
      assert.match((await ask({}, body)).refusal[1], /no chat completion/);
    for (const [finish, ...inputs] of [
      ["stop", "{"],
      ["stop", "5"],
      ["stop", '"x"'],
      ["stop", "null"],
      ["stop", "{}", '{"a":'],
      ["length", '{"a":', "{}"],
      ["length", "5"],
    ] as const) {
      const { status, refusal } = await exchanged({ tool_calls: inputs.map((input) => read(input)) }, { finish });
      assert.deepEqual(
        [status, refusal[1]],
        [502, "a tool call of the answer has no JSON object as input"],
        inputs.join(),
      );
    }
  });
});
