import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { z } from "zod";
import { loadConfig } from "../../src/api/config.ts";
import { problemsOf } from "../../src/api/problems.ts";
import { slotSpecSchema } from "../../src/api/slot.ts";
import { readManifests } from "../../src/store/files/manifest.ts";

const told = (schema: z.ZodType, value: unknown): readonly (readonly [path: string, message: string])[] => {
  const { error } = schema.safeParse(value);
  return error === undefined ? [] : problemsOf(error, schema).map(({ path, message }) => [path.join("."), message]);
};

describe("the message about an invalid value", () => {
  const either = z.union([z.string(), z.strictObject({ file: z.string() })]);

  it("is reported for the alternative that matched furthest", () => {
    assert.deepEqual(told(z.object({ a: either }), { a: { file: 1 } }), [["a.file", "must be text, and is a number"]]);
  });

  it("is reported for all alternatives if none matched further, or with the schema's message", () => {
    const both = "must be text, and is a number; or must be a map, and is a number";
    assert.deepEqual(told(either, 1), [["", both]]);
    assert.deepEqual(told(z.union([z.int(), z.string().regex(/^\d+$/, "a whole number")]), "x"), [
      ["", "a whole number"],
    ]);
    assert.deepEqual(told(z.union([z.ipv4(), z.ipv6()], "an address"), "x"), [["", "an address"]]);
  });

  it("is reported in plain language", () => {
    const rows: readonly (readonly [schema: z.ZodType, value: unknown, message: string])[] = [
      [z.boolean(), "yes", "must be true or false, and is text"],
      [z.array(z.string()), "x", "must be a list, and is text"],
      [z.int().min(8081).max(8099), 1, "must be at least 8081"],
      [z.enum(["a", "b"]), "c", "must be one of a, b"],
      [z.string().min(2), "x", "must have at least 2 characters"],
      [z.array(z.string()).max(1), ["a", "b"], "must have at most 1 item"],
      [z.number().gt(0), 0, "must be more than 0"],
      [z.record(z.string(), z.string()), [], "must be a map, and is a list"],
      [z.int(), 1.5, "must be a whole number, and has a fraction"],
    ];
    for (const [schema, value, message] of rows)
      assert.deepEqual(told(z.strictObject({ at: schema }), { at: value }), [["at", message]]);
  });

  it("reports a number that is too large, in every kind of file", () => {
    const beyond = "must be a finite number, and is beyond the range of numbers";
    for (const [file, text] of [
      ["/groups/gpu.toml", "max_wait_seconds = 1e400"],
      ["/groups/gpu.toml", "max_wait_seconds = -inf"],
      ["/groups/gpu.yaml", "maxWaitSeconds: 1e400"],
      ["/groups/gpu.yaml", "maxWaitSeconds: .inf"],
    ] as const) {
      const messages = readManifests(file, text).flatMap(({ diagnostics }) =>
        diagnostics.map(({ message }) => message),
      );
      assert.deepEqual(messages, [beyond], text);
    }
    assert.deepEqual(told(z.number(), NaN), [["", "must be a number, and is no number"]]);
  });

  it("names a missing field, or an unknown key", () => {
    const schema = z.strictObject({ name: z.string(), either });
    assert.deepEqual(told(schema, { nam: 1 }), [
      ["name", "is required"],
      ["either", "is required"],
      ["nam", "unknown key; did you mean name?"],
    ]);
  });

  it("is the same in a file, a body and a setting", () => {
    const spec = { probe: { timeoutSeconds: "soon" }, env: { A: { valueFrom: { file: 1 } } }, idleSecond: 1 };
    const body = told(slotSpecSchema, spec);
    const [declaration] = readManifests("/c/slots/a.yaml", JSON.stringify(spec));
    const file = declaration?.diagnostics.map(({ path, message }) => [path?.join("."), message]);
    assert.deepEqual(file, body);
    assert.equal(body.length, 3);
    const places = { isRoot: true, home: undefined, xdgConfigHome: undefined, xdgStateHome: undefined };
    const { problems } = loadConfig({ SVC_PORT: "x", SVC_TRUSTED_PROXIES: "y" }, {}, places);
    assert.deepEqual(problems, [
      { key: "SVC_PORT", message: "must be a whole number" },
      { key: "SVC_TRUSTED_PROXIES", message: "must be addresses or blocks such as 10.0.0.0/8" },
    ]);
  });
});
