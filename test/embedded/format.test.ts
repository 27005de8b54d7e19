import assert from "node:assert/strict";
import { test } from "node:test";
import { isRecord } from "../../src/cli/output.ts";
import { ask, choice, events, joined, post, record } from "../support/openai.ts";
import { startEngine } from "./engine.ts";
import { fc } from "../support/fast-check.ts";

const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 1500 };
const jsonSchema = (schema: unknown, strict = false): object => ({
  type: "json_schema",
  json_schema: { name: "answer", schema, strict },
});

/** Whether a value keeps to a schema of the few keywords below: a second reader, on purpose not the engine's. */
function fits(value: unknown, schema: Record<string, unknown>): boolean {
  if (Array.isArray(schema["enum"])) return schema["enum"].includes(value);
  if (Array.isArray(schema["anyOf"])) return schema["anyOf"].filter(isRecord).some((one) => fits(value, one));
  switch (schema["type"]) {
    case "integer":
      return Number.isInteger(value);
    case "boolean":
      return typeof value === "boolean";
    case "null":
      return value === null;
    case "string":
      return typeof value === "string" && lengthOf(value) <= Number(schema["maxLength"]);
    case "array": {
      const items = record(schema["items"]);
      return (
        Array.isArray(value) && value.length <= Number(schema["maxItems"]) && value.every((item) => fits(item, items))
      );
    }
    default: {
      const properties = record(schema["properties"]);
      const required: unknown[] = Array.isArray(schema["required"]) ? schema["required"] : [];
      return (
        isRecord(value) &&
        required.every((name) => typeof name === "string" && name in value) &&
        Object.entries(value).every(([name, inner]) => isRecord(properties[name]) && fits(inner, properties[name]))
      );
    }
  }
}

/** llama.cpp's grammars take up to four bytes that are no UTF-8 for one character; each comes out as U+FFFD. */
function lengthOf(text: string): number {
  return Array.from(text.replaceAll(/\uFFFD{1,4}/g, "?")).length;
}

const { schema: anySchema } = fc.letrec<{ schema: Record<string, unknown>; leaf: Record<string, unknown> }>((tie) => ({
  leaf: fc.oneof(
    fc.constantFrom({ type: "integer" }, { type: "boolean" }, { type: "null" }, { type: "string", maxLength: 4 }),
    fc.record({
      enum: fc.uniqueArray(fc.oneof(fc.string({ maxLength: 5 }), fc.integer()), { minLength: 1, maxLength: 3 }),
    }),
  ),
  schema: fc.oneof(
    { maxDepth: 2, withCrossShrink: true },
    tie("leaf"),
    fc.record({ type: fc.constant("array"), items: tie("schema"), maxItems: fc.integer({ min: 0, max: 2 }) }),
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 2 }) }),
    fc
      .dictionary(fc.constantFrom("a", "b c", 'd"', "é"), tie("schema"), { minKeys: 1, maxKeys: 3 })
      .map((properties) => ({
        type: "object",
        properties,
        required: Object.keys(properties).slice(1),
        additionalProperties: false,
      })),
  ),
}));

test("the embedded engine holds a random model to a format", async (t) => {
  await using engine = await startEngine({});
  const say = async (body: object): Promise<string> => {
    const answer = choice(await ask(engine.url, "/v1/chat/completions", { ...chat, ...body }));
    assert.equal(answer["finish_reason"], "stop", JSON.stringify(answer));
    return String(record(answer["message"])["content"]);
  };

  await t.test("the answer is JSON that matches the schema, for any schema", async () => {
    await fc.assert(
      fc.asyncProperty(anySchema, fc.integer({ min: 0, max: 1000 }), async (schema, seed) => {
        const text = await say({ response_format: jsonSchema(schema, true), seed });
        assert.ok(fits(JSON.parse(text), schema), text);
      }),
      { numRuns: 25, interruptAfterTimeLimit: 60_000 },
    );
  });

  await t.test("schemas from pydantic and zod work: definitions, a single allOf, null, recursion", async () => {
    const schema = {
      $defs: {
        Sky: { enum: ["blue", "grey"], title: "Sky" },
        Tree: {
          type: "object",
          properties: { sky: { $ref: "#/$defs/Sky" }, next: { anyOf: [{ $ref: "#/$defs/Tree" }, { type: "null" }] } },
          required: ["sky", "next"],
        },
        Chain: {
          type: "object",
          properties: { sky: { $ref: "#/$defs/Sky" }, next: { $ref: "#/$defs/Chain" } },
          required: ["sky"],
        },
      },
      type: "object",
      properties: {
        tree: { allOf: [{ $ref: "#/$defs/Tree" }], description: "a tree" },
        chain: { $ref: "#/$defs/Chain" },
        state: { type: ["boolean", "null"] },
        day: { type: "string", format: "date" },
        count: { type: "integer" },
      },
      required: ["tree", "chain", "state", "day"],
      additionalProperties: false,
    };
    const answer = record(JSON.parse(await say({ response_format: jsonSchema(schema), seed: 4, temperature: 1 })));
    assert.ok(["blue", "grey"].includes(String(record(answer["tree"])["sky"])));
    assert.deepEqual(Object.keys(record(answer["chain"])), ["sky"], "what would never end is left out");
    assert.ok(answer["state"] === null || typeof answer["state"] === "boolean");
    assert.match(String(answer["day"]), /^\d{4}-\d\d-\d\d$/);
    assert.ok(Number.isInteger(answer["count"]));
  });

  await t.test("json_object is an object", async () => {
    // Noise may go on with a text for ever: what it has said by then must still be the beginning of an object.
    const body = { ...chat, max_tokens: 200, response_format: { type: "json_object" }, temperature: 1 };
    const answer = choice(await ask(engine.url, "/v1/chat/completions", body));
    assert.match(String(record(answer["message"])["content"]), /^\{/);
  });

  await t.test("streamed, it is the same", async () => {
    const schema = { type: "object", properties: { sky: { enum: ["blue", "grey"] } }, required: ["sky"] };
    const body = { ...chat, response_format: jsonSchema(schema), temperature: 0 };
    const { chunks } = await events(await post(engine.url, "/v1/chat/completions", { ...body, stream: true }));
    const text = joined(
      chunks.map((chunk) => record(choice(chunk)["delta"])),
      "content",
    );
    assert.ok(fits(JSON.parse(text), schema), text);
    assert.equal(text, await say(body));
  });

  await t.test("a client's own grammar works for chats and completions", async () => {
    const grammar = 'root ::= "yes" | "no"';
    assert.match(await say({ grammar }), /^(yes|no)$/);
    const body = await ask(engine.url, "/v1/completions", { prompt: "well", grammar });
    assert.match(String(choice(body)["text"]), /^(yes|no)$/);
  });

  const refused: readonly [string, object, RegExp][] = [
    ["a grammar that does not parse", { grammar: "root ::= (" }, /^the grammar cannot be read/],
    [
      "a strict pattern",
      { response_format: jsonSchema({ type: "object", properties: { a: { type: "string", pattern: "x" } } }, true) },
      /schema\.properties\.a: .* pattern/,
    ],
    [
      "a strict format it does not know",
      { response_format: jsonSchema({ type: "string", format: "email" }, true) },
      /format/,
    ],
    ["not", { response_format: jsonSchema({ not: { type: "string" } }) }, /hold an answer to not/],
    ["allOf of several", { response_format: jsonSchema({ allOf: [{ type: "string" }, { enum: ["a"] }] }) }, /allOf/],
    ["a reference to elsewhere", { response_format: jsonSchema({ $ref: "https://example.com/x" }) }, /\$ref must name/],
    ["an unknown type", { response_format: jsonSchema({ type: "text" }) }, /type is none/],
    ["a list as a value", { response_format: jsonSchema({ const: [1] }) }, /plain ones/],
    ["no schema", { response_format: { type: "json_schema" } }, /schema is missing/],
    ["an unknown format", { response_format: { type: "xml" } }, /must be text, json_object or json_schema/],
    ["two formats", { response_format: { type: "json_object" }, grammar: "root ::= [a]" }, /only one of/],
  ];
  for (const [name, body, message] of refused) {
    await t.test(`refused: ${name}`, async () => {
      const response = await post(engine.url, "/v1/chat/completions", { ...chat, ...body });
      assert.equal(response.status, 400);
      assert.match(String(record(record(await response.json())["error"])["message"]), message);
    });
  }

  await t.test("without strict, parts of a schema that cannot be enforced are dropped", async () => {
    const schema = {
      type: "object",
      properties: { n: { type: "integer", minimum: 3 }, s: { enum: ["a"], pattern: "b" } },
    };
    const answer = record(JSON.parse(await say({ response_format: jsonSchema(schema) })));
    assert.ok(Number.isInteger(answer["n"]));
    assert.equal(answer["s"], "a");
  });
});
