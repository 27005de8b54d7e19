import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { grammarSchema } from "../../../engines/src/schema.ts";

// A function of the embedded engine, without a model.

const anything = {
  oneOf: [
    { type: ["string", "number", "boolean", "null"] },
    { type: "array" },
    { type: "object", additionalProperties: true },
  ],
};

describe("a schema for the grammars of the embedded engine", () => {
  const refused: readonly [string, schema: unknown, "strict" | "loose", RegExp][] = [
    [
      "a strict pattern",
      { type: "object", properties: { a: { type: "string", pattern: "x" } } },
      "strict",
      /^schema\.properties\.a: .* pattern/,
    ],
    ["a strict format that it does not know", { type: "string", format: "email" }, "strict", /format/],
    ["not", { not: { type: "string" } }, "loose", /hold an answer to not/],
    ["allOf of several", { allOf: [{ type: "string" }, { enum: ["a"] }] }, "loose", /allOf/],
    ["a reference to elsewhere", { $ref: "https://example.com/x" }, "loose", /\$ref must name/],
    ["an unknown type", { type: "text" }, "loose", /type is none/],
    ["a list as a value", { const: [1] }, "loose", /plain ones/],
  ];
  for (const [name, schema, enforcement, message] of refused)
    it(`is refused with ${name}`, () =>
      assert.throws(() => grammarSchema(schema, enforcement), { status: 400, message }));

  const made: readonly [string, schema: object, "loose" | "tool", expected: object][] = [
    [
      "loses what cannot be enforced, where it is not strict",
      { type: "object", properties: { n: { type: "integer", minimum: 3 }, s: { enum: ["a"], pattern: "b" } } },
      "loose",
      { type: "object", properties: { n: { type: "integer" }, s: { enum: ["a"] } } },
    ],
    [
      "of a tool allows any value in the place of what no grammar can hold",
      {
        type: "object",
        properties: {
          city: { enum: ["here"] },
          url: { $ref: "https://example.com/url.json" },
          when: { type: "string", not: { const: "never" }, pattern: "^(?!x)" },
        },
      },
      "tool",
      { type: "object", properties: { city: { enum: ["here"] }, url: anything, when: anything } },
    ],
    [
      "of a tool that no grammar can hold at all allows any object",
      { type: "object", properties: { city: { enum: ["here"] } }, allOf: [], if: { required: ["url"] } },
      "tool",
      { type: "object", additionalProperties: true },
    ],
    [
      "of pydantic and zod: definitions, a single allOf, null; what would never end is left out",
      {
        $defs: {
          Chain: { type: "object", properties: { sky: { enum: ["blue"] }, next: { $ref: "#/$defs/Chain" } } },
        },
        type: "object",
        properties: {
          chain: { allOf: [{ $ref: "#/$defs/Chain" }], description: "a chain" },
          state: { type: ["boolean", "null"] },
          day: { type: "string", format: "date" },
        },
        required: ["chain"],
        additionalProperties: false,
      },
      "loose",
      {
        type: "object",
        properties: {
          chain: { $ref: "#/$defs/Chain", description: "a chain" },
          state: { oneOf: [{ type: "boolean" }, { type: "null" }] },
          day: { type: "string", format: "date" },
        },
        $defs: { Chain: { type: "object", properties: { sky: { enum: ["blue"] } } } },
      },
    ],
  ];
  for (const [name, schema, enforcement, expected] of made)
    it(name, () => assert.deepEqual(grammarSchema(schema, enforcement), expected));
});
