import assert from "node:assert/strict";
import type { Command } from "commander";
import { it } from "node:test";
import { programToRead } from "../../hack/generate/cli.ts";
import { read, repositoryFiles } from "../structure/tree.ts";

const program = programToRead();

/** Commands in back-ticks, in `<code>`, at the beginning of a line, as in a block of shell, and after another command. */
const begin = String.raw`(?:\x60|<code>|^|&& |\| |; |\$\(|^.* exec (?:-it )?\S+ |^.* -- )(?:sudo )?(?:\w+=\S* )*`;
const call = new RegExp(String.raw`${begin}(?:bin/)?berth ((?:--server \S+ )?[a-z][^\x60<\n|;&)]*)`, "gm");
const make = new RegExp(String.raw`${begin}make (?:-C \S+ )?(?:[A-Z]+=\S* )*([a-z][\w-]*)(?=[\x60 );]|$)`, "gm");
const targets = new Set([...(read("Makefile") ?? "").matchAll(/^([a-z0-9-]+):/gm)].map(([, target = ""]) => target));

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

function unknownTargetsIn(text: string): string[] {
  return [...text.matchAll(make)].flatMap(([, target = ""]) => (targets.has(target) ? [] : [`make ${target}`]));
}

it("a command or option that is not there is found", () => {
  const text =
    "`berth up` `berth slot make x` <code>berth slot list --wide</code>\nberth --server http://a status --wait\n" +
    "x && berth slot shew\ndocker compose exec operator berth slot mend\nusermod -aG docker berth\n";
  assert.deepEqual(unknownIn(text), [
    "berth slot make x",
    "berth slot list --wide: --wide",
    "berth --server http://a status --wait: --wait",
    "berth slot shew",
    "berth slot mend",
  ]);
});

it("a target of make that is not there is found", () => {
  assert.deepEqual(unknownTargetsIn("`make run MODEL=a`, `X=1 make cake`\nmake -C /opt/berth setup && make pie\n"), [
    "make cake",
    "make pie",
  ]);
});

it("documents and pages name commands, options and targets of make that are there", () => {
  const files = repositoryFiles().filter((path) => /^([A-Z]+\.md|docs\/.*\.md|web\/.*\.tsx|charts\/.*)$/.test(path));
  const wrong = files.flatMap((path) => {
    const text = read(path) ?? "";
    return [...unknownIn(text), ...unknownTargetsIn(text)].map((line) => `${path}: ${line}`);
  });
  assert.deepEqual(wrong, []);
});
