import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hello, user } from "./bodies.ts";
import { exchanging } from "./site.ts";

/** A request that is right; a row of the tables below changes it. */
const right = {
  "/v1/messages": { model: "primary", max_tokens: 9, messages: [hello] },
  "/v1/responses": { model: "primary", input: "hello" },
  "/v1/rerank": { model: "primary", query: "q", documents: ["a", "b"] },
  "/v1/score": { model: "primary", text_1: "a", text_2: "b" },
  "/v1/embeddings": { model: "primary", input: "a", dimensions: 2 },
  "/v1/chat/completions": { model: "cold", messages: [hello] },
} as const;
type Path = keyof typeof right;
type Row = readonly [change: object, place: string, told: string];

const search = { type: "web_search" };
const anthropic = { type: "web_search_20260318", name: "web_search" };
const elsewhere =
  "demands a call of a tool that runs in Anthropic's service: only tools of the client's own can be called";
const notHere = "web_search cannot be called here: only functions and custom";
const positive = "must be a whole number, at least 1";
const noText = 'must be a text, or an object with "text"';
const allowed = { type: "allowed_tools", mode: "required", tools: [search] };
const read = { type: "function", name: "read", parameters: {} };
const referred = { type: "item_reference", id: "msg_1" };

const tables: readonly (readonly [path: Path, rows: readonly Row[]])[] = [
  [
    "/v1/messages",
    [
      [{ messages: undefined }, "messages", "is required"],
      [{ messages: [] }, "messages", "must hold at least one message"],
      [{ messages: [{ role: "tool", content: "x" }] }, "messages.0.role", 'must be "user", "assistant" or "system"'],
      [{ messages: [user(5)] }, "messages.0.content", "must be a text or a list of blocks"],
      [{ messages: [user([{ type: "text" }])] }, "messages.0.content.0.text", "is required"],
      [{ messages: [user([{ text: "x" }])] }, "messages.0.content.0.type", "must be a text"],
      [{ max_tokens: undefined }, "max_tokens", positive],
      [{ max_tokens: 0 }, "max_tokens", positive],
      [{ system: 5 }, "system", "must be a text or a list of text blocks"],
      [{ tools: [{ name: "read" }] }, "tools.0.input_schema", "is required"],
      [{ tools: [anthropic], tool_choice: { type: "tool", name: "web_search" } }, "tool_choice", elsewhere],
      [{ tools: [anthropic], tool_choice: { type: "any" } }, "tool_choice", elsewhere],
      [{ tool_choice: { type: "some" } }, "tool_choice.type", 'must be "auto", "any", "tool" or "none"'],
      [{ output_config: { format: { type: "xml" } } }, "output_config.format.type", 'must be "json_schema"'],
    ],
  ],
  [
    "/v1/responses",
    [
      [{ input: undefined }, "input", "must be a text or a list of items"],
      [{ input: [] }, "input", "must hold at least one item"],
      [{ previous_response_id: "resp_1" }, "previous_response_id", "are not stored here: send the whole conversation"],
      [{ conversation: "conv_1" }, "conversation", "conversation is not possible"],
      [{ conversation: { id: "conv_1" } }, "conversation", "conversation is not possible"],
      [{ prompt: { id: "pmpt_1" } }, "prompt", "templates are not stored here"],
      [{ background: true }, "background", "background is not possible"],
      [{ include: ["message.output_text.logprobs"] }, "include.0", "/v1/chat/completions has logprobs"],
      [{ max_output_tokens: 0 }, "max_output_tokens", positive],
      [{ text: { format: { type: "grammar" } } }, "text.format.type", '"json_schema"'],
      [{ tools: [{ type: "function" }] }, "tools.0.name", "is required"],
      [{ tools: [{ name: "city" }] }, "tools.0.type", "must be a text"],
      [{ input: [referred] }, "input.0", "names an item that is not stored here (any more): send items whole"],
      [{ input: [{ type: "function_call" }] }, "input.0.call_id", "is required"],
      [
        { input: [{ type: "computer_call" }, { type: "made_up_by_me" }] },
        "input",
        "holds nothing that can be passed to this engine: computer_call, another type",
      ],
      [{ tools: [read, search], tool_choice: search }, "tool_choice.type", notHere],
      [
        { tools: [read, { type: "mcp" }], tool_choice: { type: "mcp" } },
        "tool_choice.type",
        "mcp cannot be called here",
      ],
      [{ tools: [search], tool_choice: "required" }, "tool_choice", notHere],
      [{ tools: [read, search], tool_choice: allowed }, "tool_choice", notHere],
    ],
  ],
  [
    "/v1/rerank",
    [
      [{ query: undefined }, "query", noText],
      [{ query: 5 }, "query", noText],
      [{ documents: undefined }, "documents", "must be a list of texts"],
      [{ documents: "a" }, "documents", "must be a list of texts"],
      [{ documents: [] }, "documents", "must not be empty"],
      [{ documents: ["a", 7] }, "documents.1", noText],
      [{ documents: [{ text: 7 }] }, "documents.0.text", "must be text, and is a number"],
      [{ texts: ["a"] }, "documents", 'may not stand beside "texts"'],
      [{ top_n: 0 }, "top_n", positive],
      [{ top_n: 1.5 }, "top_n", positive],
      [{ return_documents: "yes" }, "return_documents", "must be true or false"],
      [{ documents: undefined, texts: ["a"], return_text: 1 }, "return_text", "must be true or false"],
    ],
  ],
  [
    "/v1/score",
    [
      [{ text_1: undefined }, "text_1", "must be a text"],
      [{ text_2: undefined }, "text_2", "must be a text"],
      [{ text_1: ["a", "b"] }, "text_1", "must be one text"],
      [{ text_2: [] }, "text_2", "must not be empty"],
    ],
  ],
  [
    "/v1/embeddings",
    [
      [{ dimensions: 0 }, "dimensions", positive],
      [{ dimensions: -1 }, "dimensions", positive],
      [{ dimensions: 1.5 }, "dimensions", positive],
    ],
  ],
];

const content = (role: string) => (wrong: unknown) => ({ messages: [{ role, content: wrong }] });
const namespace = (tools: unknown): object => ({ type: "namespace", name: "n", tools });
const choiceOf = (tools: unknown): object => ({ ...allowed, tools });
/** Each list of a request that a client fills. */
const lists: readonly (readonly [path: Path, place: string, change: (wrong: unknown) => object])[] = [
  ["/v1/messages", "messages.0", (wrong) => ({ messages: wrong })],
  ["/v1/messages", "messages.0.content.0", content("user")],
  ["/v1/messages", "messages.0.content.0", content("assistant")],
  ["/v1/messages", "messages.0.content.0", content("system")],
  ["/v1/messages", "tools.0", (wrong) => ({ tools: wrong })],
  ["/v1/messages", "stop_sequences.0", (wrong) => ({ stop_sequences: wrong })],
  ["/v1/responses", "input.0", (wrong) => ({ input: wrong })],
  ["/v1/responses", "input.0.content.0", (wrong) => ({ input: [user(wrong)] })],
  ["/v1/responses", "include.0", (wrong) => ({ include: wrong })],
  ["/v1/responses", "tools.0", (wrong) => ({ tools: wrong })],
  ["/v1/responses", "tools.0.tools.0", (wrong) => ({ tools: [namespace(wrong)] })],
  ["/v1/responses", "tool_choice.tools.0", (wrong) => ({ tool_choice: choiceOf(wrong) })],
  ["/v1/rerank", "documents.0", (documents) => ({ documents })],
  ["/v1/score", "text_2.0", (wrong) => ({ text_2: wrong })],
  ["/v1/chat/completions", "messages.0", (wrong) => ({ messages: wrong })],
  ["/v1/responses", "input.0", (wrong) => ({ model: "cold", input: wrong })],
  ["/v1/embeddings", "input.0", (wrong) => ({ model: "cold", input: wrong })],
];

/** No double holds these. */
const many = "1310456789012345678";
const huge = "-1e400";
const numbers: readonly (readonly [path: Path, place: string, fields: string])[] = [
  ["/v1/messages", "max_tokens", `"max_tokens":1e400`],
  ["/v1/messages", "temperature", `"temperature":${huge}`],
  ["/v1/messages", "temperature", `"temperature":${many}`],
  ["/v1/messages", "stop_sequences.0", `"stop_sequences":[${many}]`],
  ["/v1/messages", "thinking", `"thinking":${many}`],
  ["/v1/messages", "tools.0.input_schema", `"tools":[{"name":"f","input_schema":${many}}]`],
  ["/v1/messages", "messages.0", `"messages":[${many}]`],
  ["/v1/responses", "max_output_tokens", `"max_output_tokens":${many}`],
  ["/v1/responses", "metadata.a", `"metadata":{"a":${many}}`],
  ["/v1/responses", "tool_choice", `"tool_choice":${many}`],
  ["/v1/responses", "tools.0.parameters", `"tools":[{"type":"function","name":"f","parameters":${many}}]`],
  ["/v1/responses", "input.0", `"input":[${many}]`],
  ["/v1/embeddings", "dimensions", `"dimensions":${many}`],
  ["/v1/rerank", "top_n", `"top_n":${many}`],
  ["/v1/rerank", "documents.0", `"documents":[${many}]`],
];

describe("a request that no engine gets", () => {
  const send = exchanging("");
  const refusal = async (path: Path, body: unknown): Promise<readonly [place: string, message: string]> => {
    const { status, refusal: refused, text } = await send(body, undefined, path);
    assert.equal(status, 400, text);
    return refused;
  };

  for (const [path, rows] of tables)
    it(`names its wrong field: ${path}`, async () => {
      for (const [change, place, told] of rows) {
        const [found, message] = await refusal(path, { ...right[path], ...change });
        assert.equal(found, place, JSON.stringify(change));
        assert.ok(message.startsWith(`${place}: `) && message.includes(told), message);
      }
    });

  it("names the first wrong item of a list alone, since a body may hold 100,000", async () => {
    for (const [path, place, change] of lists) {
      const {
        refusal: [found],
        text,
      } = await send({ ...right[path], ...change(Array(1000).fill(true)) }, undefined, path);
      assert.equal(found, place, path);
      assert.ok(!text.includes("more"), text);
    }
  });

  it("names a field of the protocol that holds a number which no double holds", async () => {
    for (const [path, place, field] of numbers) {
      const [, name = ""] = /^"(\w+)"/.exec(field) ?? [];
      const rest = JSON.stringify({ ...right[path], [name]: undefined });
      const [found, message] = await refusal(path, `${rest.slice(0, -1)},${field}}`);
      assert.equal(found, place, field);
      assert.doesNotMatch(message, /received object|rawJSON/);
    }
  });

  it("names the other problems too, and no rejected value", async () => {
    const { text } = await send(
      { ...right["/v1/rerank"], query: 4711, documents: [4712], top_n: 0 },
      undefined,
      "/v1/rerank",
    );
    assert.deepEqual(JSON.parse(text).error.details, {
      path: ["query"],
      message: noText,
      more: [
        { path: ["documents", 0], message: noText },
        { path: ["top_n"], message: positive },
      ],
    });
  });

  it("is no JSON object, also where it is a number that no double holds", async () => {
    for (const path of ["/v1/messages", "/v1/rerank", "/v1/embeddings"] as const)
      for (const [body, told] of [
        ["", "the body is empty"],
        ["{", "the body is not valid JSON"],
        ["[]", "the body must be a JSON object"],
        ["null", "the body must be a JSON object"],
        [many, "the body must be a JSON object"],
        [`[${many}]`, "the body must be a JSON object"],
      ] as const)
        assert.deepEqual(await refusal(path, body), ["dispatch.invalid_request", told], `${path} ${body}`);
  });
});
