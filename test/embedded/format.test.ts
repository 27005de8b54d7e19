import assert from "node:assert/strict";
import { test } from "node:test";
import { isRecord } from "../../src/cli/output.ts";
import { ask, choice, record } from "../support/openai.ts";
import { calls, refusal, startEngine } from "./engine.ts";
import { fc, runs } from "../support/fast-check.ts";

const chat = { messages: [{ role: "user", content: "hello" }], max_tokens: 1500 };
const jsonSchema = (schema: unknown, strict = false): object => ({
  type: "json_schema",
  json_schema: { name: "answer", schema, strict },
});

const clock = { type: "function", function: { name: "clock" } };
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: {
        city: { enum: ["here"] },
        unit: { enum: ["c", "f"] },
        days: { type: "array", items: { enum: [1, 2] }, maxItems: 2 },
      },
      required: ["city"],
    },
  },
};

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
      { numRuns: runs(10) },
    );
  });

  await t.test("json_object is an object", async () => {
    // Noise may go on with a text for ever: what it has said by then must still be the beginning of an object.
    const body = { ...chat, max_tokens: 200, response_format: { type: "json_object" }, temperature: 1 };
    const answer = choice(await ask(engine.url, "/v1/chat/completions", body));
    assert.match(String(record(answer["message"])["content"]), /^\{/);
  });

  await t.test("a client's own grammar works for chats and completions", async () => {
    const grammar = 'root ::= "yes" | "no"';
    assert.match(await say({ grammar }), /^(yes|no)$/);
    const body = await ask(engine.url, "/v1/completions", { prompt: "well", grammar });
    assert.match(String(choice(body)["text"]), /^(yes|no)$/);
  });

  const refused: readonly [string, object, RegExp][] = [
    ["a grammar that does not parse", { grammar: "root ::= (" }, /^400 the grammar cannot be read/],
    [
      "a schema that no grammar can hold",
      { response_format: jsonSchema({ not: { type: "string" } }) },
      /^400 schema: .* to not/,
    ],
    ["a format beside tools", { tools: [clock], response_format: { type: "json_object" } }, /^400 .*not both/],
    [
      "a result without its call",
      { tools: [clock], messages: [{ role: "tool", tool_call_id: "call_1", content: "x" }] },
      /^400 .*must follow the call/,
    ],
    [
      "a prompt with tools beyond the context",
      { tools: [clock], messages: [{ role: "user", content: "the ".repeat(3000) }] },
      /^400 request \(\d+ tokens\) exceeds the available context size \(\d+ tokens\)/,
    ],
  ];
  for (const [name, body, message] of refused)
    await t.test(`refused: ${name}`, async () =>
      assert.match(await refusal(engine.url, "/v1/chat/completions", { ...chat, ...body }), message),
    );

  await t.test("where a tool is required, calls one, with arguments that fit its parameters", async () => {
    for (const temperature of [0, 2]) {
      const asked = { ...chat, temperature, seed: 1, tools: [weather, clock], tool_choice: "required" };
      const [call, ...more] = calls(await ask(engine.url, "/v1/chat/completions", asked));
      assert.deepEqual(more, []);
      if (call?.name === "clock") assert.deepEqual(call.input, {});
      else {
        assert.equal(call?.name, "get_weather");
        assert.ok(fits(call.input, weather.function.parameters), JSON.stringify(call.input));
      }
    }
  });

  await t.test("calls the named tool, also where its schema is none that a grammar can hold", async () => {
    const parameters = { type: "object", properties: { city: { $ref: "https://example.com/city.json" } } };
    const odd = { type: "function", function: { name: "odd", strict: true, parameters } };
    const named = { type: "function", function: { name: "odd" } };
    const body = { ...chat, max_tokens: 40, tools: [clock, odd], tool_choice: named };
    const response = await ask(engine.url, "/v1/chat/completions", body);
    assert.match(JSON.stringify(response), /"name":"odd"/);
  });

  await t.test("a client that leaves frees its place, with tools and without", async () => {
    for (const more of [{ tools: [weather] }, {}]) {
      const leaving = new AbortController();
      const response = await fetch(`${engine.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ ...chat, ...more, stream: true }),
        signal: leaving.signal,
      });
      await response.body?.getReader().read();
      leaving.abort();
      await ask(engine.url, "/v1/chat/completions", { ...chat, ...more, max_tokens: 1 });
    }
  });
});
