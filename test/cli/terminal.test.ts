import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, it } from "node:test";
import { bar, confirm, StatusLine } from "../../src/cli/terminal.ts";

function written(isTTY: boolean, columns: number, lines: readonly (readonly [string, string?])[]): string {
  let text = "";
  {
    using line = new StatusLine({ isTTY, columns, write: (piece) => (text += piece) });
    for (const [fact, detail] of lines) line.show(fact, detail);
  }
  return text;
}

describe("a status line", () => {
  const started = [["a: starting", " (1s)"], ["a: starting", " (2s)"], ["b"]] as const;
  for (const [what, isTTY, lines, text] of [
    [
      "overwrites itself on a terminal, is cut to the width, and is removed at the end",
      true,
      [
        ["a: starting", " (1s)"],
        ["b", " 1"],
        ["b", " 1"],
        ["b", " 2"],
      ],
      "\r\u001B[Ka: starting\r\u001B[Kb 1\r\u001B[Kb 2\r\u001B[K",
    ],
    ["prints a plain line per fact where there is no terminal", false, started, "a: starting\nb\n"],
    ["strips control characters", true, [["a\r\u001B[2J\nc"]], "\r\u001B[Ka [2J c\r\u001B[K"],
    ["prints nothing when it was never set", true, [], ""],
  ] as const)
    it(what, () => assert.equal(written(isTTY, 12, lines), text));
});

describe("a question", () => {
  for (const [typed, answer] of [
    ["y\n", true],
    ["YES\n", true],
    ["n\n", false],
    ["\n", false],
    ["yep\n", false],
    ["", false],
  ] as const) {
    it(`is answered ${answer} by ${JSON.stringify(typed)}`, async () => {
      const [input, output] = [new PassThrough(), new PassThrough()];
      input.end(typed);
      assert.equal(await confirm("Sure?", input, output), answer);
      assert.equal(String(output.read()), "Sure? [y/N] ");
    });
  }
});

it("a bar is full at 1, and never longer", () => {
  assert.deepEqual(
    [bar(0, 4), bar(0.5, 4), bar(1, 4), bar(7, 4), bar(-1, 4)],
    ["[----]", "[##--]", "[####]", "[####]", "[----]"],
  );
});
