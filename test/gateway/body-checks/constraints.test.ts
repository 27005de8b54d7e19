import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { checkConstraints } from "../../../src/gateway/body-checks/constraints.ts";
import { scanBody } from "../../../src/lib/json-scan.ts";

/** What the gateway says of that body, "" where it lets it through. */
function said(body: string | object): string {
  const bytes = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  const scanned = scanBody(bytes);
  assert.ok(scanned !== undefined);
  try {
    checkConstraints(bytes, scanned.shaping);
    return "";
  } catch (error) {
    assert.ok(error instanceof ApiError && error.code === "dispatch.invalid_request");
    return error.message;
  }
}
const grammar = (text: string): string => said({ model: "m", grammar: text });
const schema = (value: unknown): string => said({ json_schema: value });
const doubled = (times: number, last: string): string =>
  `${["root", ...Array.from({ length: times }, (_, index) => `x${index}`)]
    .map((name, index) => `${name} ::= x${index} x${index}`)
    .join("\n")}\nx${times} ::= ${last}`;
const nested = (times: number, open: string, close: string, inner: string): string =>
  open.repeat(times) + inner + close.repeat(times);

describe("grammars that an engine would not survive", () => {
  for (const [what, text, why] of [
    ["100,000 parentheses", `root ::= ${nested(100_000, "(", ")", '"a"')}`, /grammar: is longer/],
    ["10,000 parentheses", `root ::= ${nested(10_000, "(", ")", '"a"')}`, /nested deeper than 256/],
    ["600 bytes of what may be nothing, doubled again and again", doubled(40, '"a"?'), /more than 256 parts in a row/],
    [
      "the same, behind a first character",
      `root ::= "z" y\n${doubled(30, '"a"?').replace("root", "y")}`,
      /256 parts in a row/,
    ],
    ["repetitions of what may be nothing", `root ::= ${nested(8, "(", "){0,99}", '"a"?')}`, /more than 2000 ways/],
    ["20,000 alternatives", `root ::= ${Array(20_000).fill('"a"').join("|")}`, /2000 ways/],
    [
      "alternatives of alternatives",
      `root ::= a|a\n${Array(20)
        .fill(0)
        .map((_, i) => `${"a".repeat(i + 1)} ::= ${"a".repeat(i + 2)}|${"a".repeat(i + 2)}`)
        .join("\n")}\n${"a".repeat(21)} ::= "x"`,
      /2000 ways/,
    ],
    ["2,001 alternatives of nothing", `root ::= ${Array(2001).fill('""').join("|")}`, /2000 ways/],
    ["ways that add up over groups", `root ::= "z" ${`(${'"a"? '.repeat(200)}) `.repeat(2)}`, /256 parts in a row/],
    [
      "ways that add up behind a first rule",
      `root ::= "z" ${"y ".repeat(2)}\ny ::= ${'"a"? '.repeat(200)}`,
      /256 parts in a row/,
    ],
    ["a left recursion", 'root ::= root "a" | "b"', /begins with itself/],
    [
      "a left recursion that llama.cpp does not notice",
      'root ::= e root "a" | "b"\ne ::= x\nx ::= "" | "y"',
      /begins with itself/,
    ],
    [
      "300 rules that each begin with the next",
      `root ::= r0\n${Array.from({ length: 300 }, (_, at) => `r${at} ::= r${at + 1}`).join("\n")}\nr300 ::= "a"`,
      /nested deeper than 256/,
    ],
    ["a huge repetition", `root ::= "${"a".repeat(1000)}"{1000}`, /repeats too much/],
    ["a repetition of repetitions", 'root ::= "a"{99}{99}{99}{99}{99}', /repeats too much/],
    ["10,000 parts of many copies", `root ::= ${'"a"{0,1999} '.repeat(10_000)}`, /repeats too much/],
    ["at least 3 and at most 2", 'root ::= "a"{3,2}', /repeats at least 3 and at most 2 times/],
    ["the same behind a comment that ends with a carriage return", '#\rroot ::= "a"{3,2}', /repeats at least 3/],
    ["the same in a rule that a later one replaces", 'root ::= "a"{3,2}\nroot ::= "b"', /repeats at least 3/],
    ["a text that is no grammar", "root ::= }", /cannot be read/],
    ["a group that does not end", 'root ::= ("a"', /group that does not end/],
    ["6,000 rules", Array.from({ length: 6000 }, (_, at) => `r${at} ::= "a"`).join("\n"), /more than 5000 rules/],
    ["20,000 parts that may be missing", `root ::= ${'"a"? '.repeat(20_000)}`, /256 parts in a row/],
    ["300 parts that may be missing", `root ::= "z" ${'"a"? '.repeat(300)}`, /256 parts in a row/],
    ["nothing for ever", 'root ::= ("a"?)*', /repeats without an end what may be empty/],
    [
      "a left recursion behind an empty class",
      'root ::= e root "a" | "b"\ne ::= x\nx ::= [] | "y"',
      /begins with itself/,
    ],
    ["the same behind another", 'root ::= e root "a" | "b"\ne ::= x\nx ::= [^] | "y"', /begins with itself/],
    ["at least 3 and at most 2, with blanks", 'root ::= "a"{3, 2}', /repeats at least 3 and at most 2 times/],
  ] satisfies [string, string, RegExp][]) {
    it(`refuses ${what}`, () => assert.match(grammar(text), why));
  }

  for (const [what, text] of [
    ["a list of words", 'root ::= ("yes" | "no") "\\n"?'],
    [
      "JSON",
      String.raw`root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws # any
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}`,
    ],
    [
      "arithmetic",
      'root ::= (expr "=" ws term "\\n")+\nexpr ::= term ([-+*/] term)*\nterm ::= ident | num | "(" ws expr ")" ws\nident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*',
    ],
    [
      "a chess game",
      'root ::= [1-9] [0-9]? ". " move " " move "\\n"\nmove ::= (pawn | nonpawn | castle) [+#]?\nnonpawn ::= [NBKQR] [a-h]? [1-8]? "x"? [a-h] [1-8]\npawn ::= ([a-h] "x")? [a-h] [1-8] ("=" [NBKQR])?\ncastle ::= "O-O" "-O"?',
    ],
    [
      "4,999 rules that name each other",
      Array.from({ length: 4999 }, (_, at) => `${at === 0 ? "root" : `r${at}`} ::= "x" r${(at * 7919) % 4999}`).join(
        "\n",
      ),
    ],
    ["counts with blanks", 'root ::= "a"{1, 2} "b"{ 3 }'],
    ["tokens and any character", "root ::= <think> (!</think>)* </think> .*"],
    [
      "a language of statements",
      String.raw`root ::= (declaration)*
declaration ::= type identifier "(" parameter? ")" "{" statement* "}"
type ::= "int" | "float" | "char"
identifier ::= [a-zA-Z_] [a-zA-Z_0-9]*
parameter ::= type identifier
statement ::= ( type identifier ws "=" ws expression ";" ) | ( identifier ws "=" ws expression ";" ) |
  ( "while" "(" condition ")" "{" statement* "}" ) | ( comment ) # loops, too
condition ::= expression ("<" | "<=" | "==" | "!=") expression
expression ::= term (("+" | "-") term)*
term ::= factor(("*" | "/") factor)*
factor ::= identifier | number | "(" expression ")" | identifier "(" (expression ("," ws expression)*)? ")"
number ::= [0-9]+
comment ::= "//" [^\n]* "\n"
ws ::= [ \t\n]+`,
    ],
    [
      "200 properties that may be missing, as llama.cpp writes them",
      `root ::= "{" p0? r0 "}"\n${Array.from({ length: 200 }, (_, at) => `p${at} ::= "\\"p${at}\\":" [0-9]+\nr${at} ::= ("," p${at + 1})? r${at + 1}`).join("\n")}\np200 ::= "x"\nr200 ::= ""`,
    ],
  ] satisfies [string, string][]) {
    it(`accepts ${what}`, () => assert.equal(grammar(text), ""));
  }

  // llama.cpp answers each of them within a second, or refuses it.
  for (const [what, text] of [
    ["parts that may be nothing at every level of a recursion", 'root ::= "(" root e e | "z"\ne ::= "x"?|"y"?'],
    ["20,000 repetitions of one part", `root ::= "a"${"?".repeat(20_000)}`],
    ["2,000 parts of 20 parentheses", `root ::= ${`${nested(20, "(", ")", '"a"')} `.repeat(2000)}`],
  ] satisfies [string, string][]) {
    it(`leaves ${what} to llama.cpp`, () => assert.equal(grammar(text), ""));
  }

  it("takes the same time for every text, whatever it opens and does not end", () => {
    const length = 128 * 1024;
    const took = (of: (text: string) => string, text: string): number => {
      const from = performance.now();
      of(text);
      return performance.now() - from;
    };
    const pattern = (text: string): string => said({ guided_regex: text });
    const filled = (start: string, part: string): string => start + part.repeat((length - start.length) / part.length);
    // A time that grows with the square of the length is thousands of times as long.
    const limit = 50 * Math.max(...[0, 1, 2].map(() => took(grammar, filled("root ::= ", '"a" [b] '))));
    for (const part of ['"', "[", "(", "<", "#", " ", "a", "{", "{1", "{1,", "!", "\\", "|", "a#", "a ", '""', "a?"]) {
      assert.ok(took(grammar, filled("root ::= ", part)) < limit, `a grammar of ${part}`);
      assert.ok(took(pattern, filled("", part)) < limit, `a pattern of ${part}`);
    }
    for (const start of ["{", "{1", "{,", "{1,"])
      assert.ok(took(grammar, filled(`root ::= "a"${start}`, " ")) < limit, `blanks behind ${start}`);
  });
});

describe("schemas that an engine would not survive", () => {
  const deep = (levels: number): string => nested(levels, '{"type":"array","items":', "}", "{}");
  const twice = (name: string): object => ({ anyOf: [{ $ref: `#/$defs/${name}` }, { $ref: `#/$defs/${name}` }] });
  const bomb = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`a${at}`, twice(`a${at + 1}`)]));
  const self = { a: { $ref: "#/$defs/a" } };
  const chain = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`a${at}`, { $ref: `#/$defs/a${at + 1}` }]));
  const copies = { prefixItems: Array.from({ length: 60 }, () => ({ type: "string", maxLength: 1e9 })) };
  const patterns = Array.from({ length: 900 }, () => ({ pattern: nested(40, "(", ")", "a".repeat(600)) }));
  const values = Array.from({ length: 50 }, (_, at) => `v${at}`);
  const pattern = (text: string): object => ({ json_schema: { type: "string", pattern: text } });
  const wide = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`p${index}`, { type: "string" }]));
  const part = Object.fromEntries(Object.entries(wide).slice(0, 300));
  for (const [what, body, why] of [
    ["json_schema, deep", `{"json_schema":${deep(200)}}`, /json_schema: is nested deeper/],
    [
      "response_format, deep",
      `{"response_format":{"type":"json_schema","json_schema":{"schema":${deep(200)}}}}`,
      /nested deeper/,
    ],
    ["a tool, deep", `{"tools":[{"type":"function","function":{"parameters":${deep(200)}}}]}`, /tools: is nested/],
    ["a tool of Messages, deep", `{"tools":[{"input_schema":${deep(200)}}]}`, /tools: is nested/],
    ["the format of Responses, deep", `{"text":{"format":{"schema":${deep(200)}}}}`, /text: is nested/],
    ["more at least than at most", `{"json_schema":{"minLength":3,"maxLength":2}}`, /minLength 3 above maxLength 2/],
    ["the same in a pattern", `{"json_schema":{"pattern":"^a{3,2}$"}}`, /repeats at least 3 and at most 2 times/],
    ["a reader of llama.cpp's own", `{"chat_parser":"{}"}`, /chat_parser: is not for clients/],
    ["a window that takes gigabytes", `{"dry_penalty_last_n":2000000000}`, /dry_penalty_last_n: is more than/],
    ["another one", `{"repeat_last_n":2e9}`, /repeat_last_n: is more than/],
    [
      "many patterns that each take long",
      { tools: patterns.map((parameters) => ({ parameters })) },
      /tools: is longer/,
    ],
    ["references that double", { json_schema: { $ref: "#/$defs/a0", $defs: bomb } }, /2000 ways/],
    ["the same in a tool", { tools: [{ function: { parameters: { $ref: "#/$defs/a0", $defs: bomb } } }] }, /2000 ways/],
    [
      "a reference to itself alone",
      { json_schema: { allOf: [{ $ref: "#/$defs/a" }], $defs: self } },
      /lead on more than 256 times/,
    ],
    ["a list in which a type is twice", { json_schema: { type: ["object", "object"] } }, /type with object twice/],
    ["types of many values", { json_schema: { type: Array(100).fill("string"), enum: values } }, /2000 ways/],
    [
      "more ways than the first list says",
      { json_schema: { anyOf: [{}], oneOf: Array.from({ length: 2001 }, () => ({})) } },
      /2000 ways/,
    ],
    [
      "references that lead on and on",
      { json_schema: { $ref: "#/$defs/a0", $defs: chain } },
      /lead on more than 256 times/,
    ],
    ["3,000 properties", { json_schema: { type: "object", properties: wide } }, /objects of many properties/],
    [
      "30 objects of 300 properties",
      { tools: Array.from({ length: 30 }, () => ({ parameters: { properties: part } })) },
      /tools: has too many objects of many properties/,
    ],
    ["a pattern that repeats nothing", pattern(`^${nested(5, "(", "){0,99}", "a?")}$`), /2000 ways/],
    ["a pattern of 1,990 that may be missing", pattern("^(a?){1990}$"), /256 parts in a row/],
    ["nothing for ever in a pattern", pattern("^(a*)*$"), /repeats without an end/],
    // llama.cpp reads a number as C does: behind blanks and a sign, up to the first other character.
    ["counts with blanks in a pattern", pattern("^a{ 3,2}$"), /at least 3 and at most 2/],
    ["counts with a sign in a pattern", pattern("^a{+3,2}$"), /at least 3 and at most 2/],
    ["counts with other letters in a pattern", pattern("^a{3x,2}$"), /at least 3 and at most 2/],
    ["a pattern, deep", pattern(nested(1000, "(", ")", "a")), /nested deeper/],
    ["a trigger, deep", { grammar_triggers: [{ type: 2, value: nested(1000, "(", ")", "a") }] }, /nested deeper/],
    ["copies without end", { json_schema: copies }, /repeats too much/],
    [
      "copies without end behind a count below zero",
      { json_schema: { minItems: -1e9, ...copies } },
      /repeats too much/,
    ],
  ] satisfies [string, string | object, RegExp][]) {
    it(`refuses ${what}`, () => assert.match(said(body), why));
  }

  it("accepts the schemas that people use", () => {
    const list = (name: string): object => ({ type: "array", items: { $ref: `#/$defs/${name}` }, maxItems: 100 });
    const step = { type: "object", properties: { say: { type: "string", maxLength: 500 }, next: list("step") } };
    const kinds = { enum: Array.from({ length: 300 }, (_, index) => `kind ${index}`) };
    const code = { type: "string", pattern: "^([A-Z]{2}-)?\\d{3,5}(\\.[a-z]+)*$" };
    assert.equal(schema({ $defs: { step }, type: "object", properties: { steps: list("step"), kinds, code } }), "");
    const parameters = { type: "object", properties: { a: code, b: kinds, c: { anyOf: [code, kinds] } } };
    const tools = Array.from({ length: 100 }, () => ({ type: "function", function: { name: "tool", parameters } }));
    assert.equal(said({ tools, response_format: { type: "json_object" }, text: "plain" }), "");
  });

  it("accepts patterns whose groups repeat long parts, and whose braces are no counts", () => {
    for (const text of [
      "^([a-zA-Z0-9_.-]{1,256}/){1,50}$",
      "^([\\p{L}\\p{Z}\\p{N}_.:/=+@-]{0,256}){0,50}$",
      "^\\u{1F600}$",
      "a{5a}",
      "^\\p{L}+$",
    ])
      assert.equal(schema({ type: "string", pattern: text }), "", text);
  });

  it("accepts schemas that inherit from one that lists them, and lists of types at every level", () => {
    const Pet = { oneOf: [{ $ref: "#/$defs/Cat" }] };
    const Cat = { allOf: [{ $ref: "#/$defs/Pet" }, { properties: { name: { type: "string" } } }] };
    assert.equal(schema({ $ref: "#/$defs/Pet", $defs: { Pet, Cat } }), "");
    const optional = nested(30, '{"type":["object","null"],"properties":{"a":', "}}", "{}");
    assert.equal(said(`{"json_schema":${optional}}`), "");
  });

  it("takes no longer for references to a long chain of them than for those to a short one", () => {
    const took = (length: number): number => {
      const chain = Object.fromEntries(
        Array.from({ length }, (_, at) => [`a${at}`, at === length - 1 ? {} : { $ref: `#/$defs/a${at + 1}` }]),
      );
      const properties = Object.fromEntries(
        Array.from({ length: 20 }, (_, at) => [
          `p${at}`,
          { anyOf: Array.from({ length: 100 }, () => ({ $ref: "#/$defs/a0" })) },
        ]),
      );
      const from = performance.now();
      assert.equal(schema({ $defs: chain, properties }), "");
      return performance.now() - from;
    };
    took(2);
    assert.ok(took(250) < 20 * Math.max(...[0, 1, 2].map(() => took(2))));
  });

  it("reads no example of a tool's arguments as a schema", () => {
    const parameters = { type: "object", properties: { pattern: { type: "string" } } };
    const tool = { name: "find", input_schema: parameters, input_examples: [{ pattern: "src/**/*.ts" }] };
    assert.equal(said({ tools: [tool, { type: "function", function: { name: "find", parameters } }] }), "");
  });

  it("accepts the windows that people set", () => {
    for (const count of [-1, 0, 64, 131_072])
      assert.equal(said({ repeat_last_n: count, dry_penalty_last_n: count }), "");
  });
});
