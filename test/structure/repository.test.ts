import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { lineLimit, lintFile } from "./repository.ts";
import { read, repositoryFiles } from "./tree.ts";

describe("repository", () => {
  it("keeps files short, and free of traces of where they were written", () => {
    const problems = repositoryFiles().flatMap((path) => lintFile(path, read(path) ?? ""));
    assert.deepEqual(problems, []);
  });

  const planted: readonly (readonly [path: string, text: string, problems: readonly string[]])[] = [
    ["src/a.ts", "x\n".repeat(lineLimit), []],
    ["src/a.ts", "x\n".repeat(lineLimit + 1), [`src/a.ts: ${lineLimit + 1} lines, at most ${lineLimit}`]],
    ["engines/src/a.ts", "x\n".repeat(400), ["engines/src/a.ts: 400 lines, at most 300"]],
    ["test/a.test.ts", "x\n".repeat(400), []],
    ["README.md", ["", "work", "main", "x"].join("/"), ["README.md:1: names a path of the machine it was written on"]],
    ["hack/a.sh", ["\ncat .lib", "rary/x"].join(""), ["hack/a.sh:2: names a path of the machine it was written on"]],
    ["try.mjs", "", ["try.mjs: a scratch file"]],
    ["src/a.ts.bak", "", ["src/a.ts.bak: a scratch file"]],
    ["test/a.tmp.ts", "", ["test/a.tmp.ts: a scratch file"]],
    ["test/support/temp-dir.ts", "", []],
    ["a.md", ["", "home", "jane", "x"].join("/"), ["a.md:1: names a home directory"]],
    ["a.md", "run it in /home/you/berth; it makes the work/life balance better", []],
    [
      "package-lock.json",
      '      "resolved": "https://registry.example/zod.tgz",',
      ["package-lock.json:1: names the registry it was installed from"],
    ],
    ["test/a.test.ts", ["it.on", 'ly("x", f);'].join(""), ["test/a.test.ts:1: a test is left out, or the only one"]],
  ];
  for (const [path, text, problems] of planted) {
    it(`says ${problems.length === 0 ? "nothing" : problems.join()} of ${path}`, () => {
      assert.deepEqual(lintFile(path, text), problems);
    });
  }
});
