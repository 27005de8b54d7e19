import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseJson } from "../../src/lib/json.ts";

describe("parseJson", () => {
  for (const text of ["null", "false", "0", '""', '{"a":[1]}']) {
    it(`reads ${text}`, () => {
      assert.deepEqual(parseJson(text), JSON.parse(text));
      assert.deepEqual(parseJson(Buffer.from(text)), JSON.parse(text));
    });
  }

  for (const text of ["", "{", "undefined", "{} {}"]) {
    it(`takes ${JSON.stringify(text)} for none`, () => assert.equal(parseJson(text), undefined));
  }
});
