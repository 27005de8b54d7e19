import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import {
  assistant,
  decode,
  encode,
  failureOf,
  hello,
  refusedAt,
  text,
  tool,
  toolCall,
  toolResult,
  usage,
  user,
} from "./bodies.ts";

const base = { model: "primary", max_tokens: 100 };
const chatOf = (request: object): unknown =>
  decode(new MessagesTranslation().request(encode({ ...base, messages: [hello], ...request })));

describe("a Messages request for a chat engine", () => {
  const system = (content: unknown): object => ({ role: "system", content });
  const schema = { type: "object" };
  const fields: readonly (readonly [what: string, request: object, chat: object])[] = [
    ["the least there can be", {}, {}],
    ["a system text", { system: "be brief" }, { messages: [system("be brief"), hello] }],
    [
      "system blocks",
      { system: [{ ...text("a"), cache_control: { type: "ephemeral" } }, text("b")] },
      { messages: [system("a\n\nb"), hello] },
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
      "tools",
      {
        tools: [
          { name: "t", description: "does", input_schema: schema },
          { type: "custom", name: "u", input_schema: {} },
        ],
      },
      { tools: [tool("t", { description: "does", parameters: schema }), tool("u", { parameters: {} })] },
    ],
    ["any choice of tools", { tool_choice: { type: "auto" } }, { tool_choice: "auto" }],
    ["a must", { tool_choice: { type: "any" } }, { tool_choice: "required" }],
    ["none", { tool_choice: { type: "none" } }, { tool_choice: "none" }],
    [
      "a certain tool, one at a time",
      { tool_choice: { type: "tool", name: "t", disable_parallel_tool_use: true } },
      { tool_choice: tool("t", {}), parallel_tool_calls: false },
    ],
    [
      "a form of the answer",
      { output_config: { format: { type: "json_schema", schema } } },
      { response_format: { type: "json_schema", json_schema: { name: "output", schema, strict: true } } },
    ],
  ];
  for (const [what, request, chat] of fields)
    it(`carries ${what}`, () => assert.deepEqual(chatOf(request), { ...base, messages: [hello], ...chat }));

  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "QUJD" } };
  const imageAt = (url: string): object => ({ type: "image", source: { type: "url", url } });
  const imagePart = (url = "data:image/png;base64,QUJD"): object => ({ type: "image_url", image_url: { url } });
  const file = (source: object, title?: string): object => ({ type: "document", title, source });
  const use = (id: string, name = "x", input?: object): object => ({ type: "tool_use", id, name, input });
  const result = (id: string, content?: unknown, isError?: boolean): object => ({
    type: "tool_result",
    tool_use_id: id,
    content,
    is_error: isError,
  });
  const reminder = (words: string): string => `<system-reminder>\n${words}\n</system-reminder>`;
  const lost = (what: string): string => `[${what} could not be shown to this model.]`;
  const conversations: readonly (readonly [what: string, messages: readonly object[], chat: readonly object[]])[] = [
    ["texts as one text", [user([text("a"), text("b")])], [user("a\n\nb")]],
    ["nothing", [user([])], [user("")]],
    [
      "images among texts",
      [user([text("look"), image, imageAt("https://x/y")])],
      [user([text("look"), imagePart(), imagePart("https://x/y")])],
    ],
    [
      "documents of plain text",
      [user([file({ type: "text", media_type: "text/plain", data: "D" }, "T")])],
      [user("T\n\nD")],
    ],
    ["the text of a file", [user([file({ type: "base64", data: "aGk=" }, "a")])], [user("a\n\nhi")]],
    [
      "the size of a document of many bytes",
      [user([file({ type: "base64", data: "AAAA".repeat(100_000) })])],
      [user(lost("A document of 300000 bytes"))],
    ],
    [
      "calls and results of tools",
      [
        hello,
        assistant([
          { type: "thinking", thinking: "hm", signature: "" },
          text("let me see"),
          use("t1", "read", { path: "/" }),
          use("t2", "list"),
        ]),
        user([result("t1", "one"), result("t2", [text("two"), image], false), text("go on")]),
      ],
      [
        hello,
        assistant("let me see", toolCall("t1", "read", '{"path":"/"}'), toolCall("t2", "list")),
        toolResult("t1", "one"),
        toolResult("t2", "two"),
        user([imagePart(), text("go on")]),
      ],
    ],
    [
      "results alone, empty and failed",
      [
        assistant([use("t1", "x", {})]),
        user([result("t1"), result("t2", undefined, true), result("t3", "no such file", true)]),
      ],
      [
        assistant(null, toolCall("t1", "x")),
        toolResult("t1", ""),
        toolResult("t2", "The tool failed."),
        toolResult("t3", "no such file"),
      ],
    ],
    [
      "an answer begun, and one of thoughts alone",
      [hello, assistant([{ type: "redacted_thinking", data: "x" }]), assistant("Sure,")],
      [hello, assistant(""), assistant("Sure,")],
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
        assistant([use("t1")]),
        user([result("t1", "done")]),
        system("c"),
      ],
      [
        system("first"),
        user([text("look"), imagePart("data:,"), text(reminder("a"))]),
        assistant("yes"),
        user(`${reminder("b")}\n\nhello`),
        assistant(null, toolCall("t1", "x")),
        toolResult("t1", `done\n\n${reminder("c")}`),
      ],
    ],
    [
      "a system message between calls and their results",
      [
        hello,
        assistant([use("t1"), use("t2")]),
        system("a"),
        system("b"),
        user([result("t1", "done"), result("t2", "done too"), text("go on")]),
      ],
      [
        hello,
        assistant(null, toolCall("t1", "x"), toolCall("t2", "x")),
        toolResult("t1", "done"),
        toolResult("t2", `done too\n\n${reminder("a")}\n\n${reminder("b")}`),
        user("go on"),
      ],
    ],
    [
      "a system message after calls without results",
      [hello, assistant([use("t1")]), system("a"), hello, system("b")],
      [hello, assistant(null, toolCall("t1", "x")), user(`${reminder("a")}\n\nhello\n\n${reminder("b")}`)],
    ],
    [
      "what stays in a history, as text where it cannot be shown",
      [
        assistant([
          { type: "server_tool_use", id: "s1", name: "web_search", input: { query: "x" } },
          { type: "web_search_tool_result", tool_use_id: "s1", content: [] },
          text("found"),
          use("t1", "read", {}),
        ]),
        user([
          result("t1", [
            { type: "tool_reference", tool_name: "list" },
            file({ type: "base64", media_type: "application/pdf", data: "QUJD" }, "a.pdf"),
            { type: "search_result", title: "T", source: "https://x", content: [text("S")] },
          ]),
          file({ type: "file", file_id: "f" }),
          file({ type: "content", content: [text("D")] }),
          { type: "image", source: { type: "file", file_id: "f" } },
          { type: "container_upload", file_id: "f" },
          { type: "video" },
        ]),
      ],
      [
        assistant("found", toolCall("t1", "read")),
        toolResult("t1", `list\n\n${lost('A document "a.pdf" of 3 bytes')}\n\nT\nhttps://x\n\nS`),
        user(
          [
            lost("A document"),
            "D",
            lost("An image that is stored elsewhere"),
            lost("Content of the type container_upload"),
            lost("Content of another type"),
          ].join("\n\n"),
        ),
      ],
    ],
  ];
  for (const [what, messages, chat] of conversations)
    it(`carries ${what}`, () => assert.deepEqual(chatOf({ messages }), { ...base, messages: chat }));

  const search = { type: "web_search_20260318", name: "web_search" };
  const elsewhere =
    "demands a call of a tool that runs in Anthropic's service: only tools of the client's own can be called here";
  const refused: readonly (readonly [request: object, place: string, message: string])[] = [
    [{ messages: undefined }, "messages", "is required"],
    [{ messages: [] }, "messages", "must hold at least one message"],
    [{ messages: [{ role: "tool", content: "x" }] }, "messages.0.role", 'must be "user", "assistant" or "system"'],
    [{ messages: [user(5)] }, "messages.0.content", "must be a text or a list of blocks"],
    [{ messages: [user([{ type: "text" }])] }, "messages.0.content.0.text", "is required"],
    [{ messages: [user([{ text: "x" }])] }, "messages.0.content.0.type", "must be a text"],
    [{ max_tokens: undefined }, "max_tokens", "must be a whole number, at least 1"],
    [{ max_tokens: 0 }, "max_tokens", "must be a whole number, at least 1"],
    [{ system: 5 }, "system", "must be a text or a list of text blocks"],
    [{ tools: [{ name: "read" }] }, "tools.0.input_schema", "is required"],
    [{ tools: [search], tool_choice: { type: "tool", name: "web_search" } }, "tool_choice", elsewhere],
    [{ tools: [search], tool_choice: { type: "any" } }, "tool_choice", elsewhere],
    [{ tool_choice: { type: "some" } }, "tool_choice.type", 'must be "auto", "any", "tool" or "none"'],
    [{ output_config: { format: { type: "xml", schema } } }, "output_config.format.type", 'must be "json_schema"'],
  ];
  for (const [request, place, message] of refused)
    it(`is refused: ${JSON.stringify(request)}`, () =>
      assert.equal(refusedAt(place, () => chatOf(request)).message, `${place}: ${message}`));

  it("lacks tools and records of Anthropic's service, and names them", () => {
    const translation = new MessagesTranslation();
    const chat = translation.request(
      encode({
        ...base,
        messages: [hello, assistant([{ type: "server_tool_use", id: "s", name: "web_search", input: {} }]), hello],
        tools: [search, search, { name: "read", input_schema: {} }],
        tool_choice: { type: "any" },
      }),
    );
    assert.deepEqual(decode(chat), {
      ...base,
      messages: [hello, assistant(""), hello],
      tools: [tool("read", { parameters: {} })],
      tool_choice: "required",
    });
    assert.deepEqual(translation.leftOut, ["web_search", "server_tool_use"]);
  });

  it("is refused when it is no JSON object", () => {
    for (const body of ["", "{", "[]", "null"])
      assert.equal(failureOf(() => new MessagesTranslation().request(encode(body))).code, "dispatch.invalid_request");
  });
});

describe("a chat engine's answer as a Message", () => {
  interface Chat {
    readonly finish?: string | null;
    readonly stop?: unknown;
    readonly usage?: object | undefined;
    readonly thinking?: object;
  }
  function answerOf(message: object, { finish = "stop", stop, thinking, ...rest }: Chat = {}): object {
    const translation = new MessagesTranslation();
    translation.request(encode({ ...base, messages: [hello], thinking }));
    const choice = { index: 0, message: { role: "assistant", ...message }, finish_reason: finish, stop_reason: stop };
    const chat = { id: "chatcmpl-1", model: "engine", choices: [choice], usage, ...rest };
    const answer = decode(translation.answer(encode(chat)));
    assert.ok(typeof answer === "object" && answer !== null);
    return answer;
  }
  const read = (args: string): object => toolCall("c1", "read", args);
  const used = (input: object, id = "c1"): object => ({ type: "tool_use", id, name: "read", input });
  const none = { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 };
  const x = text("x");
  const thought = { type: "thinking", thinking: "hm", signature: "" };
  const parts = [{ type: "thinking", thinking: "hm" }, x, text("y")];

  it("has the text, model, usage and stop reason in their fields", () => {
    assert.deepEqual(answerOf({ content: "Hello." }), {
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
    ["a call", { content: null, tool_calls: [read("{}")] }, { finish: "tool_calls" }, { stop_reason: "tool_use" }],
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
    it(`has ${what}`, () => {
      const answer = answerOf(message, chat);
      assert.deepEqual(answer, { ...answer, ...fields });
    });

  for (const body of ["<html>", null, {}, { choices: [] }, { choices: [{ message: { content: 5 } }] }])
    it(`is a failure of the engine when it is ${JSON.stringify(body)}`, () =>
      assert.equal(failureOf(() => new MessagesTranslation().answer(encode(body))).code, "dispatch.upstream_failed"));

  for (const [finish, ...inputs] of [
    ["stop", "{"],
    ["stop", "5"],
    ["stop", '"x"'],
    ["stop", "null"],
    ["stop", "{}", '{"a":'],
    ["length", '{"a":', "{}"],
    ["length", "5"],
  ] as const)
    it(`is a failure of the engine when the inputs of calls are ${inputs.join(" and ")} at ${finish}`, () => {
      const failure = failureOf(() => answerOf({ tool_calls: inputs.map((input) => read(input)) }, { finish }));
      assert.equal(failure.message, "the engine's tool call has no JSON object as input");
    });
});
