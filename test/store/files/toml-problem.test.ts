import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseDocuments } from "../../../src/store/files/documents.ts";

const conflict = "a conflict marker of a merge: keep one side, and delete the markers";

describe("the problem of a text, and its place", () => {
  const cases: readonly (readonly [text: string, line: number, message: string])[] = [
    ['engine = "llama\nport = 1\n', 1, "a text does not end in its line: its closing quote is missing"],
    ['a = """x\nb = 2', 1, "a text does not end: its closing quotes are missing"],
    ["a = 1\n<<<<<<< HEAD\nb = 1\n=======\nb = 2\n>>>>>>> other\n", 2, conflict],
    ["a = yes\n", 1, "this is no value; texts stand in quotes"],
    ["a =\nb = 2\n", 1, "the value is missing"],
    ["a = “x”\n", 1, "these are typographic quotes; TOML has only straight ones"],
    ["[model\na = 1\n", 1, 'the "]" of this table\'s name is missing'],
    ["a = 1\nport 1\n", 2, 'this is no `key = value`: the "=" is missing'],
    ["a = 1\na = 2\n", 2, "this is defined twice"],
    ["a = [1,\n2\nb = 3\n", 3, "a comma or a closing bracket is missing before this"],
  ];
  for (const [text, line, message] of cases) {
    it(`${JSON.stringify(text)}: ${message}`, () => {
      const result = parseDocuments("slots/a.toml", text);
      assert.ok("problem" in result);
      assert.deepEqual([result.problem.line, result.problem.message], [line, message]);
    });
  }

  it("a merge conflict in YAML is reported as such", () => {
    const text = "engine: llama\n<<<<<<< HEAD\nport: 1\n=======\nport: 2\n>>>>>>> other\n";
    assert.deepEqual(parseDocuments("slots/a.yaml", text), { problem: { line: 2, column: 1, message: conflict } });
  });
});
