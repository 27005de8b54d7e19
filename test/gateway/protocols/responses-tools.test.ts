import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isRecord } from "../../../src/lib/record.ts";
import { customInput, CustomInput } from "../../../src/gateway/protocols/custom-input.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { fc } from "../../support/fast-check.ts";
import { list, record } from "../../support/openai.ts";
import {
  assistant,
  callChunk,
  chunk,
  decode,
  done,
  encode,
  hello,
  nothingKept,
  openaiReading,
  refusedAt,
  text,
  through,
  tool,
  toolCall,
  toolResult,
} from "./bodies.ts";

const schema = { type: "object", properties: {} };
const read = { type: "function", name: "read", parameters: schema };
const grammar = { type: "grammar", syntax: "lark", definition: "start: /.+/" };
const patch = { type: "custom", name: "apply_patch", description: "edit files", format: grammar };
const files = { type: "namespace", name: "mcp__files__", description: "d", tools: [read, { ...patch, name: "edit" }] };
const search = { type: "web_search" };

function opened(request: object): { translation: ResponsesTranslation; chat: Record<string, unknown> } {
  const translation = new ResponsesTranslation(nothingKept);
  const body = encode({ model: "primary", input: "hello", ...request });
  return { translation, chat: record(decode(translation.request(body))) };
}

const namesOf = (chat: Record<string, unknown>): unknown[] =>
  list(chat["tools"] ?? []).map((each) => record(each["function"])["name"]);

describe("the tools of a Responses request as functions of a chat", () => {
  it("are these, by kind", () => {
    const { translation, chat } = opened({ tools: [read, search, files, patch] });
    const description = "Follows this lark grammar:\nstart: /.+/";
    const parameters = {
      type: "object",
      properties: { input: { type: "string", description } },
      required: ["input"],
      additionalProperties: false,
    };
    assert.deepEqual(chat["tools"], [
      tool("read", { parameters: schema }),
      tool("mcp__files__read", { parameters: schema }),
      tool("mcp__files__edit", { description: "edit files", parameters }),
      tool("apply_patch", { description: "edit files", parameters }),
    ]);
    assert.deepEqual(translation.leftOut, ["web_search"]);
  });

  it("lack those that only OpenAI's service or a later client knows, each of which is named once", () => {
    const types = ["web_search_preview_2025_03_11", "mcp", "mcp", "image_generation", "tool_search", "of_next_year"];
    const { translation, chat } = opened({ tools: [...types.map((type) => ({ type })), patch], tool_choice: "auto" });
    assert.deepEqual(namesOf(chat), ["apply_patch"]);
    const leftOut = ["web_search_preview", "mcp", "image_generation", "tool_search", "another type"];
    assert.deepEqual(translation.leftOut, leftOut);
    const none = opened({ tools: [search], tool_choice: "auto", parallel_tool_calls: true });
    assert.deepEqual(none.chat, { model: "primary", messages: [hello] });
  });

  it("are also those within the input, where a client's later list of a tool holds", () => {
    const { chat } = opened({
      tools: [{ ...read, description: "old" }],
      input: [
        { type: "additional_tools", role: "developer", tools: [files, search] },
        hello,
        { type: "tool_search_output", call_id: "a", tools: [{ ...read, description: "new" }] },
      ],
      tool_choice: "required",
    });
    assert.deepEqual(namesOf(chat), ["read", "mcp__files__read", "mcp__files__edit"]);
    assert.equal(record(list(chat["tools"])[0]?.["function"])["description"], "new");
    assert.deepEqual(chat["messages"], [hello]);
  });

  it("have unique names of at most 64 characters, and answer to them", () => {
    const long = "n".repeat(60);
    const { translation, chat } = opened({
      tools: [
        { type: "namespace", name: "a", tools: [{ ...read, name: "bc" }] },
        { type: "namespace", name: "ab", tools: [{ ...read, name: "c" }] },
        { type: "namespace", name: long, tools: [read, { ...read, name: "write" }] },
        { ...read, name: "abc" },
        { ...patch, name: "cut" },
      ],
    });
    const names = namesOf(chat).map(String);
    assert.deepEqual([new Set(names).size, names[2], names[4]], [6, `${long}read`, "abc"]);
    assert.match(names[3] ?? "", /^n{55}_[0-9a-f]{8}$/);
    assert.ok(names.every((name) => name.length <= 64));
    const calls = names.map((name) => toolCall(name, name));
    const response = record(decode(translation.answer(encode({ choices: [{ message: { tool_calls: calls } }] }))));
    assert.deepEqual(
      list(response["output"]).map(({ type, namespace, name }) => [type, namespace, name]),
      [
        ["function_call", "a", "bc"],
        ["function_call", "ab", "c"],
        ["function_call", long, "read"],
        ["function_call", long, "write"],
        ["function_call", undefined, "abc"],
        ["custom_tool_call", undefined, "cut"],
      ],
    );
  });

  const all = ["read", "mcp__files__read", "mcp__files__edit", "apply_patch"];
  const allowed = (mode: string, ...tools: readonly object[]): object => ({ type: "allowed_tools", mode, tools });
  const choices: readonly (readonly [choice: unknown, wanted: unknown, names: readonly string[]])[] = [
    [{ type: "custom", name: "apply_patch" }, "apply_patch", all],
    [{ type: "function", name: "read", namespace: "mcp__files__" }, "mcp__files__read", all],
    [allowed("auto", search, { type: "function", name: "read" }), "auto", ["read"]],
    [allowed("required", { type: "namespace", name: "mcp__files__" }), "required", all.slice(1, 3)],
  ];
  for (const [choice, wanted, names] of choices)
    it(`are chosen by ${JSON.stringify(choice)}`, () => {
      const { chat } = opened({ tools: [read, search, files, patch], tool_choice: choice });
      const chosen = chat["tool_choice"];
      const name = isRecord(chosen) ? record(chosen["function"])["name"] : chosen;
      assert.deepEqual([name, namesOf(chat)], [wanted, names]);
    });

  const refused: readonly (readonly [tools: readonly object[], choice: unknown, place: string])[] = [
    [[read, search], search, "tool_choice.type"],
    [[read, { type: "mcp" }], { type: "mcp", server_label: "x" }, "tool_choice.type"],
    [[search], "required", "tool_choice"],
    [[read, search], allowed("required", search), "tool_choice"],
  ];
  for (const [tools, choice, place] of refused)
    it(`cannot be had where the request demands another: ${JSON.stringify(choice)}`, () =>
      assert.match(
        refusedAt(place, () => opened({ tools, tool_choice: choice })).message,
        /^tool_choice.*: (web_search|mcp) cannot be called here: only functions and custom/,
      ));
});

describe("calls of these tools in a Responses answer", () => {
  const tools = [read, files, patch, search];
  const written = '*** Begin "Patch"\n+ä😀\n*** End';
  const calls = [
    ["a", "apply_patch", JSON.stringify({ input: written })],
    ["b", "mcp__files__read", "{}"],
    ["c", "mcp__files__edit", '{ "input" : "x'],
  ] as const;
  const item = (type: string, id: string, more: object): object => ({
    type,
    call_id: id,
    status: "completed",
    ...more,
  });
  const namespace = "mcp__files__";
  const items = [
    item("custom_tool_call", "a", { name: "apply_patch", input: written }),
    item("function_call", "b", { namespace, name: "read", arguments: "{}" }),
    item("custom_tool_call", "c", { namespace, name: "edit", input: "x", status: "incomplete" }),
  ];

  it("have the client's names and kinds, and the client's tools are repeated without those left out", () => {
    const { translation } = opened({ tools });
    const message = { tool_calls: calls.map(([id, name, args]) => toolCall(id, name, args)) };
    const response = record(decode(translation.answer(encode({ choices: [{ message, finish_reason: "length" }] }))));
    const output = list(response["output"]);
    assert.deepEqual(
      output.map(({ id: _id, ...each }) => each),
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
    const pieces = calls.flatMap(([id, name, whole], at) => [
      callChunk(at, "", { id, name }),
      ...(whole.match(/[^]{1,3}/g) ?? []).map((piece) => callChunk(at, piece)),
    ]);
    const sent = through(translation, [...pieces, chunk({}, "length"), done].join(""));
    const stream = openaiReading(sent).responses.stream({ model: "primary", input: "x" });
    let deltas = "";
    const whole: unknown[] = [];
    stream.on("response.custom_tool_call_input.delta", ({ delta, output_index: at }) => {
      if (at === 0) deltas += delta;
    });
    stream.on("response.custom_tool_call_input.done", ({ input }) => void whole.push(input));
    const { output } = await stream.finalResponse();
    assert.deepEqual(
      list(JSON.parse(JSON.stringify(output))).map(({ id: _id, parsed_arguments: _parsed, ...each }) => each),
      items,
    );
    assert.deepEqual([deltas, ...whole], [written, written, "x"]);
  });

  it("hold the input of a custom tool in whatever form the model wrote it", () => {
    for (const [args, input] of [
      ['{"input":"a\\u00e4\\ud83d\\ude00\\n\\"b"}', 'aä😀\n"b'],
      ['{"input":"cut \\', "cut "],
      ['{"input":"cut \\u00', "cut "],
      ['{"input":"two\nlines"}', "two\nlines"],
      ['{"why":"because","input":"late"}', "late"],
      ['{"patch":"x"}', '{"patch":"x"}'],
      ["*** Begin Patch", "*** Begin Patch"],
      ["", ""],
    ] as const)
      assert.equal(customInput(args), input, args);
  });

  it("give the same input however the arguments are split", () => {
    // Any character, and often those that JSON escapes.
    const unit = fc.oneof(
      fc.constantFrom('"', "\\", "\n", "ä", "😀"),
      fc.integer({ min: 1, max: 0xd7ff }).map((code) => String.fromCodePoint(code)),
    );
    fc.assert(
      fc.property(fc.string({ unit }), fc.array(fc.nat(12)), fc.boolean(), (whole, sizes, isEscaped) => {
        const plain = JSON.stringify({ input: whole });
        const args = isEscaped
          ? plain.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
          : plain;
        const reader = new CustomInput();
        let at = 0;
        let input = "";
        for (const size of sizes) {
          input += reader.add(args.slice(at, at + size));
          at += size;
          assert.doesNotMatch(input, /[\ud800-\udbff]$/, "half a character");
        }
        assert.equal(input + reader.add(args.slice(at)) + reader.end(), whole);
      }),
    );
  });
});

it("calls in the history of a Responses request are those of a chat, and other records are left out by name", () => {
  const called = (type: string, id: string, more: object): object => ({ type, call_id: id, ...more });
  const { translation, chat } = opened({
    tools: [files, patch],
    input: [
      hello,
      called("function_call", "a", { namespace: "mcp__files__", name: "read", arguments: "{}" }),
      called("custom_tool_call", "b", { name: "apply_patch", input: "*** x", status: "completed" }),
      { type: "local_shell_call", id: "c", action: { type: "exec", command: ["ls"] }, status: "completed" },
      called("apply_patch_call", "d", { operation: { type: "delete_file", path: "x" } }),
      called("function_call", "e", { namespace: "gone", name: "away", arguments: "{}" }),
      { type: "web_search_call", id: "ws", status: "completed", action: { type: "search", query: "x" } },
      { type: "compaction", encrypted_content: "x" },
      called("function_call_output", "a", { output: "1" }),
      called("custom_tool_call_output", "b", { output: [text("2", "input_text")] }),
      { type: "local_shell_call_output", id: "c", output: "3" },
      called("apply_patch_call_output", "d", { status: "completed" }),
      called("function_call_output", "e", { output: "5" }),
    ],
  });
  assert.deepEqual(chat["messages"], [
    hello,
    assistant(
      null,
      toolCall("a", "mcp__files__read"),
      toolCall("b", "apply_patch", '{"input":"*** x"}'),
      toolCall("c", "local_shell", '{"type":"exec","command":["ls"]}'),
      toolCall("d", "apply_patch", '{"type":"delete_file","path":"x"}'),
      toolCall("e", "goneaway"),
    ),
    toolResult("a", "1"),
    toolResult("b", "2"),
    toolResult("c", "3"),
    toolResult("d", "completed"),
    toolResult("e", "5"),
  ]);
  assert.deepEqual(translation.leftOut, ["web_search_call", "compaction"]);
});
