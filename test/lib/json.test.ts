import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { keepsNumbers, parseExactJson, parseForeign, parseJson } from "../../src/lib/json.ts";

it("parseJson reads JSON, of text and of bytes, and takes anything else for none", () => {
  for (const text of ["null", "false", "0", '""', '{"a":[1]}']) {
    assert.deepEqual(parseJson(text), JSON.parse(text));
    assert.deepEqual(parseJson(Buffer.from(text)), JSON.parse(text));
  }
  for (const text of ["", "{", "undefined", "{} {}"]) assert.equal(parseJson(text), undefined, text);
});

it("parseForeign takes 10 MiB of pasted text, in one piece or many", () => {
  for (const size of [1024, 10 * 1024 * 1024]) {
    const text = JSON.stringify(Array((10 * 1024 * 1024) / size).fill("a".repeat(size)));
    assert.ok(JSON.stringify(parseForeign(text)) === text, `in texts of ${size} bytes`);
  }
});

describe("parseExactJson", () => {
  const again = (text: string): string => JSON.stringify(parseExactJson(text));

  const exact = [
    '{"a":9007199254740993,"b":-12345678901234567890}',
    "[1e400,-1E+400,1e21,123.45678901234567e300]",
    `[${"9".repeat(400)}]`,
    '{"":18446744073709551615,"__proto__":{"a":18446744073709551615},"toJSON":18446744073709551615}',
    '{"rawJSON":"18446744073709551615","x":{"rawJSON":18446744073709551615}}',
    '{"a":"18446744073709551615","b":" 1e400"}',
    '[0.1234567890123456,9007199254740991,null,true,"",1.5,-1]',
  ];
  it("keeps each number, under any name", () => {
    for (const text of exact) assert.equal(again(text), text);
  });

  it("keeps the last of two equal keys, as JSON.parse does", () => {
    const twice = '{"a":{"b":1},"a":9007199254740993,"c":9007199254740995}';
    assert.equal(again(twice), '{"a":9007199254740993,"c":9007199254740995}');
  });

  it("has numbers that a double holds as numbers", () => {
    assert.deepEqual(parseExactJson('{"a":[1e5,1234567890123456,9007199254740991,1.5e-300]}'), {
      a: [1e5, 1234567890123456, 9007199254740991, 1.5e-300],
    });
  });

  it("has a number by itself as a number", () => {
    for (const each of ["9007199254740993", " 1e400"]) assert.equal(parseExactJson(each), Number(each));
  });

  it("has doubles in a text of more than 20,000 values, where exact ones would take long", () => {
    for (const [count, kept] of [
      [19_000, "9007199254740993"],
      [21_000, "9007199254740992"],
    ] as const)
      assert.ok(again(`[${"1,".repeat(count)}9007199254740993]`).endsWith(`,${kept}]`), `${count} values`);
  });

  it("takes a broken text for none", () => {
    for (const broken of ["", "[9007199254740993", "[9007199254740993,]", "undefined"])
      assert.equal(parseExactJson(broken), undefined, broken);
  });
});

it("keepsNumbers finds a number that a double does not hold, outside of texts", () => {
  for (const text of ['{"a":1310456789012345678}', "[1e400]", "[\n-1E5]", "[1.5e+30]", '{"a" : 12345678.1234567e9}'])
    assert.equal(keepsNumbers(text, 1), true, text);
  for (const text of ['{"a":"id1310456789012345678"}', '["iVBORw0KGgo1e400AAA1E+"]', "[0.1234567890123456789,1e-400]"])
    assert.equal(keepsNumbers(text, 1), false, text);
});

it("keepsNumbers reads a hostile text in time that grows with its length: else this test does not end", () => {
  for (const part of ["1", "1e1", "1.", "123456789012345a", ",1", ":-1.1"])
    keepsNumbers(`{"a":"x${part.repeat(400_000 / part.length)}"}`, 1);
});
