import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isRecord } from "../../../src/lib/record.ts";
import { customInput, CustomInput } from "../../../src/gateway/protocols/custom-input.ts";
import { fc } from "../../support/fast-check.ts";
import { list, record } from "../../support/openai.ts";
import { assistant, callChunk, chunk, done, hello, openaiReading, text, tool, toolCall, toolResult } from "./bodies.ts";
import { exchanging } from "./site.ts";

const schema = { type: "object", properties: {} };
const read = { type: "function", name: "read", parameters: schema };
const grammar = { type: "grammar", syntax: "lark", definition: "start: /.+/" };
const patch = { type: "custom", name: "apply_patch", description: "edit files", format: grammar };
const files = { type: "namespace", name: "mcp__files__", description: "d", tools: [read, { ...patch, name: "edit" }] };
const search = { type: "web_search" };
const tools = [read, search, files, patch];

const asking = (): ReturnType<typeof exchanging> => exchanging("/v1/responses", { model: "primary", input: "hello" });
const namesOf = (chat: Record<string, unknown>): unknown[] =>
  list(chat["tools"] ?? []).map((each) => record(each["function"])["name"]);

describe("the tools of a Responses request as functions of a chat", () => {
  const ask = asking();

  it("are these, by kind", async () => {
    const free = { type: "custom", name: "note", format: { type: "text" } };
    const formal = { type: "custom", name: "sum", format: { type: "grammar", definition: "x" } };
    const { sent, leftOut } = await ask({ tools: [...tools, free, formal] });
    const parametersOf = (description?: string): object => ({
      type: "object",
      properties: { input: { type: "string", ...(description !== undefined && { description }) } },
      required: ["input"],
      additionalProperties: false,
    });
    const parameters = parametersOf("Follows this lark grammar:\nstart: /.+/");
    assert.deepEqual(sent["tools"], [
      tool("read", { parameters: schema }),
      tool("mcp__files__read", { parameters: schema }),
      tool("mcp__files__edit", { description: "edit files", parameters }),
      tool("apply_patch", { description: "edit files", parameters }),
      tool("note", { parameters: parametersOf() }),
      tool("sum", { parameters: parametersOf("Follows this formal grammar:\nx") }),
    ]);
    assert.equal(leftOut, "web_search");
  });

  it("lack those that only OpenAI's service or a later client knows, each of which is named once", async () => {
    const types = ["web_search_preview_2025_03_11", "mcp", "mcp", "image_generation", "tool_search", "of_next_year"];
    const { sent, leftOut } = await ask({ tools: [...types.map((type) => ({ type })), patch], tool_choice: "auto" });
    assert.deepEqual(namesOf(sent), ["apply_patch"]);
    assert.equal(leftOut, "web_search_preview, mcp, image_generation, tool_search, another type");
    const none = await ask({ tools: [search], tool_choice: "auto", parallel_tool_calls: true });
    assert.deepEqual(none.sent, { model: "engine-model", messages: [hello] });
  });

  it("are also those within the input, where a client's later list of a tool holds", async () => {
    const { sent } = await ask({
      tools: [{ ...read, description: "old" }],
      input: [
        { type: "additional_tools", role: "developer", tools: [files, search] },
        hello,
        { type: "tool_search_output", call_id: "a", tools: [{ ...read, description: "new" }] },
      ],
      tool_choice: "required",
    });
    assert.deepEqual(namesOf(sent), ["read", "mcp__files__read", "mcp__files__edit"]);
    assert.equal(record(list(sent["tools"])[0]?.["function"])["description"], "new");
    assert.deepEqual(sent["messages"], [hello]);
  });

  it("have unique names of at most 64 characters, and answer to them", async () => {
    const long = "n".repeat(60);
    const all = {
      tools: [
        { type: "namespace", name: "a", tools: [{ ...read, name: "bc" }] },
        { type: "namespace", name: "ab", tools: [{ ...read, name: "c" }] },
        { type: "namespace", name: long, tools: [read, { ...read, name: "write" }] },
        { ...read, name: "abc" },
        { ...patch, name: "cut" },
      ],
    };
    const names = namesOf((await ask(all)).sent).map(String);
    assert.deepEqual([new Set(names).size, names[2], names[4]], [6, `${long}read`, "abc"]);
    assert.match(names[3] ?? "", /^n{55}_[0-9a-f]{8}$/);
    assert.ok(names.every((name) => name.length <= 64));
    const calls = names.map((name) => toolCall(name, name));
    const { answer } = await ask(all, { choices: [{ message: { tool_calls: calls } }] });
    assert.deepEqual(
      list(answer["output"]).map(({ type, namespace, name }) => [type, namespace, name]),
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
  const allowed = (mode: string, ...these: readonly object[]): object => ({
    type: "allowed_tools",
    mode,
    tools: these,
  });
  const choices: readonly (readonly [choice: unknown, wanted: unknown, names: readonly string[]])[] = [
    [{ type: "custom", name: "apply_patch" }, "apply_patch", all],
    [{ type: "function", name: "read", namespace: "mcp__files__" }, "mcp__files__read", all],
    [allowed("auto", search, { type: "function", name: "read" }), "auto", ["read"]],
    [allowed("required", { type: "namespace", name: "mcp__files__" }), "required", all.slice(1, 3)],
  ];
  it("are chosen under their names at the engine", async () => {
    for (const [choice, wanted, names] of choices) {
      const { sent } = await ask({ tools, tool_choice: choice });
      const chosen = sent["tool_choice"];
      const name = isRecord(chosen) ? record(chosen["function"])["name"] : chosen;
      assert.deepEqual([name, namesOf(sent)], [wanted, names]);
    }
  });
});

describe("calls of these tools in a Responses answer", () => {
  const ask = asking();
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

  it("have the client's names and kinds, and the client's tools are repeated without those left out", async () => {
    const message = { tool_calls: calls.map(([id, name, args]) => toolCall(id, name, args)) };
    const { answer } = await ask({ tools }, { choices: [{ message, finish_reason: "length" }] });
    const output = list(answer["output"]);
    assert.deepEqual(
      output.map(({ id: _id, ...each }) => each),
      items,
    );
    assert.deepEqual(
      output.map(({ id }) => String(id).split("_")[0]),
      ["ctc", "fc", "ctc"],
    );
    assert.deepEqual(
      list(answer["tools"]).map(({ type }) => type),
      ["function", "namespace", "custom"],
    );
  });

  it("are streamed the same, whatever the pieces, as OpenAI's client reads them", async () => {
    const pieces = calls.flatMap(([id, name, whole], at) => [
      callChunk(at, "", { id, name }),
      ...(whole.match(/[^]{1,3}/g) ?? []).map((piece) => callChunk(at, piece)),
    ]);
    const { text: sent } = await ask({ tools, stream: true }, [...pieces, chunk({}, "length"), done].join(""));
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

  it("in the history of a request are those of a chat, and other records are left out by name", async () => {
    const called = (type: string, id: string, more: object): object => ({ type, call_id: id, ...more });
    const { sent, leftOut } = await ask({
      tools: [files, patch],
      input: [
        hello,
        called("function_call", "a", { namespace, name: "read", arguments: "{}" }),
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
    const asked = [
      toolCall("a", "mcp__files__read"),
      toolCall("b", "apply_patch", '{"input":"*** x"}'),
      toolCall("c", "local_shell", '{"type":"exec","command":["ls"]}'),
      toolCall("d", "apply_patch", '{"type":"delete_file","path":"x"}'),
      toolCall("e", "goneaway"),
    ];
    const results = Object.entries({ a: "1", b: "2", c: "3", d: "completed", e: "5" });
    const told = results.map(([id, result]) => toolResult(id, result));
    assert.deepEqual(sent["messages"], [hello, assistant(null, ...asked), ...told]);
    assert.equal(leftOut, "web_search_call, compaction");
  });
});

describe("the input of a custom tool", () => {
  it("is what the model wrote, in whatever form", () => {
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

  it("is the same however the arguments are split", () => {
    // Any character, and often those that JSON escapes.
    const unit = fc.oneof(
      fc.constantFrom('"', "\\", "\n", "ä", "😀"),
      fc.integer({ min: 1, max: 0xd7ff }).map((code) => String.fromCodePoint(code)),
    );
    const escaped = (text: string): string =>
      text.replaceAll(/[\u0080-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
    fc.assert(
      fc.property(fc.string({ unit }), fc.array(fc.nat(12)), fc.boolean(), (whole, sizes, isEscaped) => {
        const plain = JSON.stringify({ input: whole });
        const args = isEscaped ? escaped(plain) : plain;
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
