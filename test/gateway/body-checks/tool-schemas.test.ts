import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkConstraints, withFitTools } from "../../../src/gateway/body-checks/constraints.ts";
import { fitTools } from "../../../src/gateway/body-checks/tool-schemas.ts";
import { scanBody } from "../../../src/lib/json-scan.ts";

const toolOf = (a: unknown, more: object = {}): object[] => [
  {
    type: "function",
    function: { name: "f", strict: true, parameters: { type: "object", properties: { a }, ...more } },
  },
];
const text = { type: "string" };

describe("tools that an engine of llama.cpp would refuse", () => {
  for (const [what, given, fit, ...lost] of [
    ["a pattern that is not anchored", { ...text, pattern: "\\S" }, text, "pattern"],
    ["a pattern that looks ahead", { ...text, pattern: "^(?!x)[a-z]+$" }, text, "pattern"],
    ["a pattern with a class of characters", { ...text, pattern: "^\\d{4}$" }, text, "pattern"],
    ["a pattern that repeats too often", { ...text, pattern: "^[a-z]{1,2000}$" }, text, "pattern"],
    ["a text of any length", { ...text, minLength: 1, maxLength: 524_288 }, { ...text, minLength: 1 }, "maxLength"],
    ["a long list", { type: "array", items: text, maxItems: 5000 }, { type: "array", items: text }, "maxItems"],
    ["no whole number as a count", { ...text, maxLength: null, minLength: 1.5 }, text, "maxLength", "minLength"],
    ["a reference to another document", { $ref: "https://example.com/x.json" }, {}, "$ref"],
    ["a reference to nothing", { $ref: "#/$defs/none" }, {}, "$ref"],
    ["a type that JSON does not have", { type: "file" }, {}, "type"],
    ["a choice of nothing", { enum: [], anyOf: [] }, {}, "enum", "anyOf"],
    ["any value", true, {}],
    ["parts of parts", { anyOf: [text, { items: { format: null } }] }, { anyOf: [text, { items: {} }] }, "format"],
  ] satisfies [string, unknown, unknown, ...string[]][]) {
    it(`lose ${what}`, () => {
      const leftOut = lost.map((keyword) => `tools.${keyword}`);
      assert.deepEqual(fitTools(toolOf(given)), { tools: toolOf(fit), leftOut });
    });
  }

  it("are found in the forms of Messages and Responses, too, and others beside them stay", () => {
    const [given, fit] = [{ properties: { a: { pattern: "x" } } }, { properties: { a: {} } }];
    const others = [{ type: "web_search" }, ...toolOf(text)];
    const tools = [{ name: "f", input_schema: given }, { type: "function", name: "f", parameters: given }, ...others];
    assert.deepEqual(fitTools(tools)?.tools, [
      { name: "f", input_schema: fit },
      { type: "function", name: "f", parameters: fit },
      ...others,
    ]);
  });
});

for (const [what, before, after] of [
  ["a number in place of a schema is any value", '{"pattern":"x","items":1e400}', '{"items":{}}'],
  [
    "tools that are written again keep numbers that a double cannot hold",
    '{"type":"integer","pattern":"x","maximum":18446744073709551615,"enum":[9007199254740993]}',
    '{"type":"integer","maximum":18446744073709551615,"enum":[9007199254740993]}',
  ],
] as const)
  it(what, () => {
    const bodyWith = (parameters: string): Buffer =>
      Buffer.from(`{"tools":[{"name":"f","parameters":${parameters}}],"model":"m"}`);
    const tools = checkConstraints(bodyWith(before), scanBody(bodyWith(before))?.shaping ?? []);
    assert.ok(tools !== undefined);
    assert.equal(String(withFitTools(bodyWith(before), tools)?.body), String(bodyWith(after)));
  });

describe("tools that every engine takes", () => {
  for (const [what, schema] of [
    ["a plain pattern", { ...text, pattern: "^(?:[A-Z]{3}|a\\.b)-[0-9]+$" }],
    ["short texts and lists", { type: "array", items: { ...text, maxLength: 1999 }, maxItems: 600 }],
    ["a reference within the document", { $ref: "#/$defs/x" }],
    ["properties called like keywords", { properties: { pattern: text, maxLength: { type: "integer" } } }],
    ["values that look like schemas", { default: { pattern: "x" }, const: { maxLength: 1e6 } }],
    ["unknown formats", { ...text, format: "hostname" }],
    ["further properties", { type: "object", additionalProperties: false }],
  ] satisfies [string, object][]) {
    it(`keep ${what}`, () => assert.equal(fitTools(toolOf(schema, { $defs: { x: text } })), undefined));
  }
});
