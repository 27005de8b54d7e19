import assert from "node:assert/strict";
import { describe, it } from "node:test";
import OpenAI from "openai";
import { isRecord } from "../../../src/lib/record.ts";
import { customInput, CustomInput } from "../../../src/gateway/protocols/custom-input.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { fc } from "../../support/fast-check.ts";
import { list, record } from "../../support/openai.ts";
import { decode, encode, failureOf, nothingKept } from "./bodies.ts";

const base = { model: "primary", input: "hello" };
const object = { type: "object", properties: {} };
const read = { type: "function", name: "read", parameters: object };
const grammar = { type: "grammar", syntax: "lark", definition: "start: /.+/" };
const patch = { type: "custom", name: "apply_patch", description: "edit files", format: grammar };
const files = { type: "namespace", name: "mcp__files__", description: "d", tools: [read, { ...patch, name: "edit" }] };
const input = (more: object = {}): object => ({
  type: "object",
  properties: { input: { type: "string", ...more } },
  required: ["input"],
  additionalProperties: false,
});
const described = { description: "Follows this lark grammar:\nstart: /.+/" };

function opened(request: object): { translation: ResponsesTranslation; chat: Record<string, unknown> } {
  const translation = new ResponsesTranslation(nothingKept);
  return { translation, chat: record(decode(translation.request(encode({ ...base, ...request })))) };
}

function namesOf(chat: Record<string, unknown>): unknown[] {
  return list(chat["tools"] ?? []).map((tool) => record(tool["function"])["name"]);
}

describe("the tools of a Responses request as functions of a chat", () => {
  it("are these, by kind", () => {
    const { translation, chat } = opened({ tools: [read, { type: "web_search" }, files, patch] });
    const named = (name: string, more: object): object => ({ type: "function", function: { name, ...more } });
    assert.deepEqual(chat["tools"], [
      named("read", { parameters: object }),
      named("mcp__files__read", { parameters: object }),
      named("mcp__files__edit", { description: "edit files", parameters: input(described) }),
      named("apply_patch", { description: "edit files", parameters: input(described) }),
    ]);
    assert.deepEqual(translation.leftOut, ["web_search"]);
  });

  it("lack those that only OpenAI's service or a later client knows, each of which is named once", () => {
    const types = ["web_search_preview_2025_03_11", "mcp", "mcp", "image_generation", "tool_search", "of_next_year"];
    const { translation, chat } = opened({ tools: [...types.map((type) => ({ type })), patch], tool_choice: "auto" });
    assert.deepEqual(namesOf(chat), ["apply_patch"]);
    assert.deepEqual(translation.leftOut, [
      "web_search_preview",
      "mcp",
      "image_generation",
      "tool_search",
      "another type",
    ]);
    const none = opened({ tools: [{ type: "web_search" }], tool_choice: "auto", parallel_tool_calls: true });
    assert.deepEqual(none.chat, { model: "primary", messages: [{ role: "user", content: "hello" }] });
  });

  it("are also those within the input, where a client's later list of a tool holds", () => {
    const { chat } = opened({
      tools: [{ ...read, description: "old" }],
      input: [
        { type: "additional_tools", role: "developer", tools: [files, { type: "web_search" }] },
        { role: "user", content: "hello" },
        { type: "tool_search_output", call_id: "a", tools: [{ ...read, description: "new" }] },
      ],
      tool_choice: "required",
    });
    assert.deepEqual(namesOf(chat), ["read", "mcp__files__read", "mcp__files__edit"]);
    assert.equal(record(list(chat["tools"])[0]?.["function"])["description"], "new");
    assert.deepEqual(chat["messages"], [{ role: "user", content: "hello" }]);
  });

  it("have unique names of at most 64 characters, and answer to them", () => {
    const long = "n".repeat(60);
    const tools = [
      { type: "namespace", name: "a", tools: [{ ...read, name: "bc" }] },
      { type: "namespace", name: "ab", tools: [{ ...read, name: "c" }] },
      { type: "namespace", name: long, tools: [read, { ...read, name: "write" }] },
      { ...read, name: "abc" },
      { ...patch, name: "cut" },
    ];
    const { translation, chat } = opened({ tools });
    const names = namesOf(chat).map(String);
    assert.deepEqual([new Set(names).size, names[3]?.slice(0, 55), names[4]], [6, "n".repeat(55), "abc"]);
    assert.ok(names.every((name) => name.length <= 64));
    const calls = names.map((name) => ({ id: name, function: { name, arguments: "{}" } }));
    const response = record(decode(translation.answer(encode({ choices: [{ message: { tool_calls: calls } }] }))));
    const got = list(response["output"]).map(({ type, namespace, name }) => [type, namespace, name]);
    assert.deepEqual(got, [
      ["function_call", "a", "bc"],
      ["function_call", "ab", "c"],
      ["function_call", long, "read"],
      ["function_call", long, "write"],
      ["function_call", undefined, "abc"],
      ["custom_tool_call", undefined, "cut"],
    ]);
  });

  const choices: readonly (readonly [choice: unknown, wanted: unknown, names: readonly string[]])[] = [
    [
      { type: "custom", name: "apply_patch" },
      "apply_patch",
      ["read", "mcp__files__read", "mcp__files__edit", "apply_patch"],
    ],
    [
      { type: "function", name: "read", namespace: "mcp__files__" },
      "mcp__files__read",
      ["read", "mcp__files__read", "mcp__files__edit", "apply_patch"],
    ],
    [
      { type: "allowed_tools", mode: "auto", tools: [{ type: "web_search" }, { type: "function", name: "read" }] },
      "auto",
      ["read"],
    ],
    [
      { type: "allowed_tools", mode: "required", tools: [{ type: "namespace", name: "mcp__files__" }] },
      "required",
      ["mcp__files__read", "mcp__files__edit"],
    ],
  ];
  for (const [choice, wanted, names] of choices) {
    it(`are chosen by ${JSON.stringify(choice)}`, () => {
      const { chat } = opened({ tools: [read, { type: "web_search" }, files, patch], tool_choice: choice });
      const chosen = chat["tool_choice"];
      assert.deepEqual(
        [isRecord(chosen) ? record(chosen["function"])["name"] : chosen, namesOf(chat)],
        [wanted, names],
      );
    });
  }

  const refused: readonly (readonly [tools: readonly object[], choice: unknown])[] = [
    [[read, { type: "web_search" }], { type: "web_search" }],
    [[read, { type: "mcp" }], { type: "mcp", server_label: "x" }],
    [[{ type: "web_search" }], "required"],
    [[read, { type: "web_search" }], { type: "allowed_tools", mode: "required", tools: [{ type: "web_search" }] }],
  ];
  for (const [tools, choice] of refused) {
    it(`cannot be had where the request demands another: ${JSON.stringify(choice)}`, () => {
      const failure = failureOf(() => opened({ tools, tool_choice: choice }));
      assert.equal(failure.code, "dispatch.invalid_request");
      assert.match(
        failure.message,
        /^tool_choice.*: (web_search|mcp) cannot be called here: only functions and custom/,
      );
    });
  }
});

describe("calls of these tools in a Responses answer", () => {
  const tools = [read, files, patch, { type: "web_search" }];
  const text = '*** Begin "Patch"\n+ä😀\n*** End';
  const calls = [
    { index: 0, id: "a", function: { name: "apply_patch", arguments: JSON.stringify({ input: text }) } },
    { index: 1, id: "b", function: { name: "mcp__files__read", arguments: "{}" } },
    { index: 2, id: "c", function: { name: "mcp__files__edit", arguments: '{ "input" : "x' } },
  ];
  const items = [
    { type: "custom_tool_call", status: "completed", call_id: "a", name: "apply_patch", input: text },
    {
      type: "function_call",
      status: "completed",
      call_id: "b",
      namespace: "mcp__files__",
      name: "read",
      arguments: "{}",
    },
    {
      type: "custom_tool_call",
      status: "incomplete",
      call_id: "c",
      namespace: "mcp__files__",
      name: "edit",
      input: "x",
    },
  ];

  it("have the client's names and kinds, and the client's tools are repeated without those left out", () => {
    const { translation } = opened({ tools });
    const answer = { choices: [{ message: { tool_calls: calls }, finish_reason: "length" }] };
    const response = record(decode(translation.answer(encode(answer))));
    const output = list(response["output"]);
    assert.deepEqual(
      output.map(({ id: _id, ...item }) => item),
      items,
    );
    assert.deepEqual(
      output.map(({ id }) => String(id).split("_")[0]),
      ["ctc", "fc", "ctc"],
    );
    assert.deepEqual(
      list(response["tools"]).map(({ type }) => type),
      ["function", "namespace", "custom"],
    );
  });

  it("are streamed the same, whatever the pieces, as OpenAI's client reads them", async () => {
    const { translation } = opened({ tools, stream: true });
    const pieces = calls.flatMap(({ index, id, function: { name, arguments: whole } }) => [
      { index, id, function: { name, arguments: "" } },
      ...(whole.match(/[^]{1,3}/g) ?? []).map((piece) => ({ index, function: { arguments: piece } })),
    ]);
    const sent = pieces.map((piece) => ({ choices: [{ delta: { tool_calls: [piece] } }] }));
    const chunks = [...sent, { choices: [{ delta: {}, finish_reason: "length" }] }];
    const bytes = Buffer.from(
      `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`,
    );
    const streamed = translation.stream.push(bytes) ?? assert.fail("no events");
    const client = new OpenAI({
      apiKey: "none",
      baseURL: "http://127.0.0.1:9/v1",
      fetch: () => Promise.resolve(new Response(streamed, { headers: { "content-type": "text/event-stream" } })),
    });
    const stream = client.responses.stream({ model: "primary", input: "x" });
    let written = "";
    const done: unknown[] = [];
    stream.on(
      "response.custom_tool_call_input.delta",
      ({ delta, output_index: at }) => void (written += at === 0 ? delta : ""),
    );
    stream.on("response.custom_tool_call_input.done", ({ input: whole }) => void done.push(whole));
    const { output } = await stream.finalResponse();
    const expected = items.map((item) => ({ ...item }));
    assert.deepEqual(
      output
        .map(({ id: _id, ...item }) => item)
        .map((item) => record(JSON.parse(JSON.stringify(item))))
        .map(({ parsed_arguments: _parsed, ...item }) => item),
      expected,
    );
    assert.deepEqual([written, ...done], [text, text, "x"]);
  });

  it("hold the input of a custom tool in whatever form the model wrote it", () => {
    const forms: readonly (readonly [written: string, input: string])[] = [
      ['{"input":"a\\u00e4\\ud83d\\ude00\\n\\"b"}', 'aä😀\n"b'],
      ['{"input":"cut \\', "cut "],
      ['{"input":"cut \\u00', "cut "],
      ['{"input":"two\nlines"}', "two\nlines"],
      ['{"why":"because","input":"late"}', "late"],
      ['{"patch":"x"}', '{"patch":"x"}'],
      ["*** Begin Patch", "*** Begin Patch"],
      ["", ""],
    ];
    for (const [written, expected] of forms) assert.equal(customInput(written), expected, written);
  });

  it("give the same input however the arguments are split", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.array(fc.nat(12)), fc.boolean(), (whole, sizes, isEscaped) => {
        const plain = JSON.stringify({ input: whole });
        const written = isEscaped
          ? plain.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
          : plain;
        const reader = new CustomInput();
        let at = 0;
        let text = "";
        for (const size of sizes) {
          text += reader.add(written.slice(at, at + size));
          at += size;
          assert.doesNotMatch(text, /[\ud800-\udbff]$/, "half a character");
        }
        assert.equal(text + reader.add(written.slice(at)) + reader.end(), whole);
      }),
    );
  });
});

describe("calls in the history of a Responses request", () => {
  it("are those of a chat, whatever their kind, and other records are left out by name", () => {
    const { translation, chat } = opened({
      tools: [files, patch],
      input: [
        { role: "user", content: "hello" },
        { type: "function_call", call_id: "a", namespace: "mcp__files__", name: "read", arguments: "{}" },
        { type: "custom_tool_call", call_id: "b", name: "apply_patch", input: "*** x", status: "completed" },
        { type: "local_shell_call", id: "c", action: { type: "exec", command: ["ls"] }, status: "completed" },
        { type: "apply_patch_call", call_id: "d", operation: { type: "delete_file", path: "x" } },
        { type: "function_call", call_id: "e", namespace: "gone", name: "away", arguments: "{}" },
        { type: "web_search_call", id: "ws", status: "completed", action: { type: "search", query: "x" } },
        { type: "compaction", encrypted_content: "x" },
        { type: "function_call_output", call_id: "a", output: "1" },
        { type: "custom_tool_call_output", call_id: "b", output: [{ type: "input_text", text: "2" }] },
        { type: "local_shell_call_output", id: "c", output: "3" },
        { type: "apply_patch_call_output", call_id: "d", status: "completed" },
        { type: "function_call_output", call_id: "e", output: "5" },
      ],
    });
    const call = (id: string, name: string, text: string): object => ({
      id,
      type: "function",
      function: { name, arguments: text },
    });
    const result = (id: string, content: string): object => ({ role: "tool", tool_call_id: id, content });
    assert.deepEqual(chat["messages"], [
      { role: "user", content: "hello" },
      {
        role: "assistant",
        content: null,
        tool_calls: [
          call("a", "mcp__files__read", "{}"),
          call("b", "apply_patch", '{"input":"*** x"}'),
          call("c", "local_shell", '{"type":"exec","command":["ls"]}'),
          call("d", "apply_patch", '{"type":"delete_file","path":"x"}'),
          call("e", "goneaway", "{}"),
        ],
      },
      result("a", "1"),
      result("b", "2"),
      result("c", "3"),
      result("d", "completed"),
      result("e", "5"),
    ]);
    assert.deepEqual(translation.leftOut, ["web_search_call", "compaction"]);
  });
});
