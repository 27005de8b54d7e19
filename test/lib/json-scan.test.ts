import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { scanBody } from "../../src/lib/json-scan.ts";
import { isRecord } from "../../src/lib/record.ts";
import { fc } from "../support/fast-check.ts";

/** One way to write a value down: any blanks, any letters escaped. */
interface Style {
  readonly blanks: readonly string[];
  readonly escapeEvery: number;
  readonly escapesNames: boolean;
}

const style: fc.Arbitrary<Style> = fc.record({
  blanks: fc.array(fc.constantFrom("", " ", "\n", "\t", "\r\n  "), { minLength: 1, maxLength: 5 }),
  escapeEvery: fc.nat(4),
  escapesNames: fc.boolean(),
});

/** JSON text of members that may repeat a name, which an object cannot hold. */
function write(
  members: readonly (readonly [name: string, value: unknown])[],
  { blanks, escapeEvery, escapesNames }: Style,
): string {
  let count = 0;
  const blank = (): string => blanks[count++ % blanks.length] ?? "";
  const letter = (of: string): string => {
    const isEscaped = escapeEvery > 0 && /^[a-z]$/.test(of) && count++ % escapeEvery === 0;
    return isEscaped ? `\\u00${of.charCodeAt(0).toString(16)}` : JSON.stringify(of).slice(1, -1);
  };
  const string = (text: string): string => `"${Array.from(text, letter).join("")}"`;
  const value = (of: unknown): string => {
    if (typeof of === "string") return string(of);
    if (Array.isArray(of)) return `[${blank()}${of.map((each) => value(each) + blank()).join(`,${blank()}`)}]`;
    return isRecord(of) ? object(Object.entries(of)) : JSON.stringify(of);
  };
  const object = (pairs: readonly (readonly [string, unknown])[]): string =>
    `{${blank()}${pairs.map(([name, of]) => `${escapesNames ? string(name) : JSON.stringify(name)}${blank()}:${blank()}${value(of)}${blank()}`).join(`,${blank()}`)}}`;
  return blank() + object(members) + blank();
}

const json = fc.jsonValue({ maxDepth: 3 });
const member: fc.Arbitrary<readonly [string, unknown]> = fc.oneof(
  fc.tuple(fc.constant("model"), fc.oneof(fc.string({ unit: "binary" }), fc.string(), json)),
  fc.tuple(fc.constant("stream"), fc.oneof(fc.boolean(), json)),
  fc.tuple(
    fc.oneof(fc.string({ unit: "binary" }), fc.constantFrom('model"', "mode", "models", "streams", "\\model", "")),
    json,
  ),
  fc.tuple(
    fc.string(),
    fc.constantFrom<unknown>({ model: "inner", stream: true }, ['"model":"x"'], '","model":"y","stream":true,"'),
  ),
);
const members = fc.array(member, { maxLength: 8 });

/** Also of lone surrogates, which UTF-8 does not have: both sides see what is in the bytes. */
function parsed(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString());
}

describe("scanBody", () => {
  it("finds what JSON.parse finds, in every object however written", () => {
    fc.assert(
      fc.property(members, style, (of, how) => {
        const bytes = Buffer.from(write(of, how));
        const whole = parsed(bytes);
        assert.ok(isRecord(whole));
        const scanned = scanBody(bytes);
        assert.ok(scanned !== undefined, "valid JSON is never refused");
        if (scanned.ambiguous !== undefined) return;
        assert.equal(scanned.model, typeof whole["model"] === "string" ? whole["model"] : undefined);
        assert.equal(scanned.isStream, whole["stream"] === true);
      }),
    );
  });

  it("reads a long name of a model and passes over a long key, with an escape and without", () => {
    const name = "m".repeat(100);
    for (const spelt of [name, `${name.slice(1)}\\u006d`])
      assert.equal(scanBody(Buffer.from(`{"${spelt}":"x","model":"${spelt}"}`))?.model, name);
  });

  it("gives the position of the model, so that another name can replace it", () => {
    fc.assert(
      fc.property(members, style, fc.string({ unit: "binary" }), (of, how, name) => {
        const bytes = Buffer.from(write([...of, ["model", "before"]], how));
        const scanned = scanBody(bytes);
        assert.ok(scanned?.modelStart !== undefined && scanned.modelStart > 0);
        const replaced = Buffer.concat([
          bytes.subarray(0, scanned.modelStart),
          Buffer.from(JSON.stringify(name)),
          bytes.subarray(scanned.modelEnd),
        ]);
        const [before, after] = [parsed(bytes), parsed(replaced)];
        assert.ok(isRecord(before) && isRecord(after));
        const written: unknown = JSON.parse(Buffer.from(JSON.stringify(name)).toString());
        assert.deepEqual(
          Object.entries(after),
          Object.entries(before).map(([key, value]) => [key, key === "model" ? written : value]),
        );
      }),
    );
  });

  it("reports a repeated key that the gateway reads, or another spelling of it", () => {
    const letter = (of: string): fc.Arbitrary<string> =>
      fc.constantFrom(of, of, of, of.toUpperCase(), `\\u00${of.charCodeAt(0).toString(16)}`);
    const spelt = (name: string): fc.Arbitrary<string> =>
      fc.tuple(...Array.from(name, letter)).map((all) => all.join(""));
    const names = ["model", "stream", "messages", "input", "tools", "text", "json_schema"];
    const other = fc.constantFrom(
      "mode",
      "models",
      "Modell",
      "streams",
      "a",
      "ſtream",
      "ümodel",
      "",
      "tool",
      "json-schema",
    );
    const keys = fc.array(fc.oneof(...names.flatMap((name) => [fc.constant(name), spelt(name)]), other), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(keys, (all) => {
        const scanned = scanBody(Buffer.from(`{${all.map((key) => `"${key}":1`).join(",")}}`));
        const read = all.map((key) =>
          String(JSON.parse(`"${key}"`))
            .toUpperCase()
            .toLowerCase(),
        );
        const ambiguous = read.find(
          (name, at) => names.includes(name) && (all[at] !== name || read.indexOf(name) < at),
        );
        assert.equal(scanned?.ambiguous, ambiguous, all.join(" "));
      }),
    );
  });

  it("reports a name that Go's parser takes for one that the gateway reads", () => {
    assert.equal(scanBody(Buffer.from('{"ſtream":true}'))?.ambiguous, "stream");
    assert.equal(scanBody(Buffer.from('{"toolſ":[]}'))?.ambiguous, "tools");
  });

  it("never throws or loops, for any changed, cut or inserted bytes", () => {
    const damage = fc.array(
      fc.record({
        at: fc.nat(),
        drop: fc.nat(3),
        put: fc.uint8Array({ maxLength: 3 }),
        structural: fc.string({ unit: fc.constantFrom('"', "\\", "{", "}", "[", "]", ",", ":"), maxLength: 2 }),
      }),
      { minLength: 1, maxLength: 4 },
    );
    fc.assert(
      fc.property(members, style, damage, (of, how, changes) => {
        let bytes = Buffer.from(write(of, how));
        for (const { at, drop, put, structural } of changes) {
          const from = at % (bytes.length + 1);
          bytes = Buffer.concat([bytes.subarray(0, from), put, Buffer.from(structural), bytes.subarray(from + drop)]);
        }
        const scanned = scanBody(bytes);
        let whole: unknown;
        try {
          whole = parsed(bytes);
        } catch {
          // What is no JSON at all may pass: the engine refuses it. But it must not pass for something else.
          if (scanned?.model !== undefined) assert.equal(bytes[scanned.modelStart], 0x22);
          return;
        }
        assert.equal(scanned !== undefined, isRecord(whole));
        if (!isRecord(whole)) return;
        if (scanned?.ambiguous === undefined)
          assert.equal(scanned?.model, typeof whole["model"] === "string" ? whole["model"] : undefined);
      }),
    );
  });

  const unfit = [
    ["nothing", ""],
    ["blanks", " \n"],
    ["an array", '[{"model":"x"}]'],
    ["two objects", '{"model":"x"}{"model":"y"}'],
    ["an object that does not end", '{"model":"x"'],
    ["a string that does not end", '{"model":"x'],
    ["a string whose end is escaped", '{"model":"x\\"}'],
    ["a key without quotes", '{model:"x"}'],
    ["no colon", '{"model" "x"}'],
    ["a comma too many", '{"model":"x",}'],
    ["a model with a broken escape", '{"model":"\\x"}'],
    ["a model with a bare line end", '{"model":"a\nb"}'],
    ["something behind it", '{"model":"x"} x'],
  ] as const;
  it("refuses what is no object", () => {
    for (const [what, text] of unfit) assert.equal(scanBody(Buffer.from(text)), undefined, what);
  });

  it("ends at a bound, so that no body takes it long", () => {
    const size = 12e6;
    const bodies = [
      `{"model":"m","x":[${"{},".repeat(size / 3)}0]}`,
      `{"model":"m","x":["a"${',"a"'.repeat(size / 4)}]}`,
      `{"model":"m","x":${"1".repeat(size)}}`,
      `{"model":"m","x":[${" ".repeat(size)}]}`,
      `{"model":"m"${" ".repeat(size)}}`,
      `{"model":"m","x":"${'\\"'.repeat(size / 2)}"}`,
      `{"model":"m","x":[${`"${"\\".repeat(1001)}"",`.repeat(size / 1005)}0]}`,
      `{"model":"m","x":"\\u005b${"{}".repeat(size / 2)}"}`,
    ];
    for (const body of bodies) assert.equal(scanBody(Buffer.from(body))?.isExcessive, true, body.slice(0, 40));
  });

  for (const [what, value] of [
    ["a picture of 8 MB", `"data:image/png;base64,${"QUJD".repeat(2e6)}"`],
    ["a text of 40 MB with escapes", `"${"He said so,\\nand went on.".repeat(1.6e6)}"`],
    ["2048 inputs of 512 tokens each", JSON.stringify(Array(2048).fill(Array(512).fill(100_277)))],
    ["2048 inputs of 8 kB each", JSON.stringify(Array(2048).fill(`It is "so",\n${"and was. ".repeat(20)}`.repeat(42)))],
  ] as const) {
    it(`lets ${what} through`, () => {
      const scanned = scanBody(Buffer.from(`{"model":"m","input":${value}}`));
      assert.deepEqual([scanned?.model, scanned?.isExcessive], ["m", false]);
    });
  }
});

describe("a body that readers by recursion would not survive", () => {
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  const called = (args: string): string => `{"messages":[{"tool_calls":[{"function":{"arguments":${args}}}]}]}`;
  const object = (count: number): string =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, index])));
  for (const [what, body, isExcessive] of [
    ["lists in lists", `{"model":"m","chat_template_kwargs":{"a":${nested(100_000)}}}`, true],
    ["the arguments of a tool's call", called(`{"a":${nested(300)}}`), true],
    ["the same in a string", called(JSON.stringify(`{"a":${nested(300)}}`)), true],
    ["the same behind blanks", called(JSON.stringify(`\n {"a":${nested(300)}}`)), true],
    ["the same in escapes", called(`"\\u005b${nested(300).slice(1)}"`), true],
    ["what closes only in texts", called(`{"]]]]":${'{"}}":'.repeat(300)}1${"}".repeat(301)}`), true],
    ["an object of 6000 fields", `{"x":[${object(6000)}]}`, true],
    ["6000 fields of its own", object(6000), true],
    ["2.1 million numbers", `{"input":[${"1,".repeat(2_100_000)}1]}`, true],
    ["what people nest", called(JSON.stringify(JSON.stringify({ a: nested(50) }))), false],
    ["many messages", JSON.stringify({ messages: Array.from({ length: 9000 }, () => ({ role: "user" })) }), false],
    ["a text of many brackets", JSON.stringify({ messages: [{ content: `see ${"[".repeat(5000)}` }] }), false],
    ["a file of JSON in a text", JSON.stringify({ messages: [{ content: object(9000) }] }), false],
  ] satisfies [string, string, boolean][]) {
    it(what, () => assert.equal(scanBody(Buffer.from(body))?.isExcessive, isExcessive));
  }
});
