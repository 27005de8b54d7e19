import assert from "node:assert/strict";
import type { Command } from "commander";
import { it } from "node:test";
import { programToRead } from "../../hack/generate/cli.ts";
import { read, repositoryFiles } from "../structure/tree.ts";

const program = programToRead();

/** Commands in back-ticks, in `<code>`, and at the beginning of a line, as in a block of shell. */
const call = /(?:`|<code>|^(?:sudo )?)(?:bin\/)?berth ((?:--server \S+ )?[a-z][^`<\n|;]*)/gm;

/** What a text names of the command line, and the program does not have. */
function unknownIn(text: string): string[] {
  return [...text.matchAll(call)].flatMap(([, line = ""]) => {
    const words = line
      .replace(/^--server \S+ /, "")
      .trim()
      .split(/\s+/);
    let command: Command = program;
    for (let word = words[0]; word !== undefined; word = words[0]) {
      const next = command.commands.find((each) => each.name() === word);
      if (next === undefined) break;
      command = next;
      words.shift();
    }
    // A word such as NAME or `slot|model` stands for several.
    const isUnknown = command.commands.length > 0 && /^[a-z-]+$/.test(words[0] ?? "");
    const flags = new Set(
      [command, program].flatMap((each) => each.options.flatMap(({ long, short }) => [long, short])),
    );
    const options = words.flatMap((word) => /^(--?[a-z][a-z-]*)/.exec(word)?.[1] ?? []);
    const wrong = options.filter((option) => !flags.has(option) && option !== "--help");
    return isUnknown ? [`berth ${line}`] : wrong.map((option) => `berth ${line}: ${option}`);
  });
}

it("a command or option that is not there is found", () => {
  const text =
    "`berth up` `berth slot make x` <code>berth slot list --wide</code>\nberth --server http://a status --wait\n";
  assert.deepEqual(unknownIn(text), [
    "berth slot make x",
    "berth slot list --wide: --wide",
    "berth --server http://a status --wait: --wait",
  ]);
});

it("documents and pages name commands and options that are there", () => {
  const files = repositoryFiles().filter((path) => /^(README\.md|docs\/.*\.md|web\/.*\.tsx|charts\/.*)$/.test(path));
  const wrong = files.flatMap((path) => unknownIn(read(path) ?? "").map((line) => `${path}: ${line}`));
  assert.deepEqual(wrong, []);
});
