import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { bash, zsh } from "../../src/cli/completion-sh.ts";
import { fish } from "../../src/cli/completion-fish.ts";
import type { CommandTree } from "../../src/cli/completion.ts";
import { runBerth } from "../support/command.ts";
import { tempDir } from "../support/temp-dir.ts";

const plain = { description: "", options: [], arguments: [], children: [] };
const tree: CommandTree = {
  ...plain,
  name: "berth",
  options: [
    { long: "--server", short: undefined, description: "whose", takesValue: true, choices: [] },
    { long: "--version", short: "-V", description: "which", takesValue: false, choices: [] },
  ],
  children: [
    {
      ...plain,
      name: "slot",
      description: "slots",
      children: [
        {
          ...plain,
          name: "swap",
          description: "it's other model",
          options: [
            { long: "--output", short: "-o", description: "form", takesValue: true, choices: ["table", "json"] },
          ],
          arguments: [
            { name: "slot", choices: [] },
            { name: "ref", choices: [] },
          ],
        },
      ],
    },
    { ...plain, name: "install", description: "engines", arguments: [{ name: "engine", choices: ["embedded"] }] },
  ],
};

describe("completion in bash", () => {
  /** Runs the script in a bash where `berth` and `compopt` are these functions. */
  async function inBash(functions: string, run: string, env: NodeJS.ProcessEnv = {}, cwd = "/"): Promise<string[]> {
    const { stdout: script } = await runBerth(["completion", "bash"]);
    const shell = promisify(execFile)("bash", ["-c", `${script}\n${functions}\n${run}`], {
      cwd,
      env: { PATH: process.env["PATH"], ...env },
    });
    return (await shell).stdout.trimEnd().split("\n");
  }

  /** The words that bash offers after each line, with `+files` where it offers files as well. */
  const offered = (berth: string, lines: readonly string[]): Promise<string[]> =>
    inBash(
      `berth() { ${berth}; }; compopt() { files=; }`,
      `while IFS= read -r COMP_LINE; do COMP_POINT=\${#COMP_LINE} files=+files; _berth
         echo "\${COMPREPLY[*]}$files"; done <<<"$LINES_OF_A_PERSON"`,
      { LINES_OF_A_PERSON: lines.join("\n") },
    );

  it("offers what may stand there, and files only where a file may", async () => {
    const lines: readonly (readonly [line: string, words: string])[] = [
      ["berth sl", "slot"],
      ["berth slot sh", "show"],
      ["berth slot show ", "primary coder"],
      ["berth slot show pr", "primary"],
      ["berth --server http://a slot show c", "coder"],
      ["berth slot list -o js", "json"],
      ["berth slot list -o nothing-like-it", ""],
      ["berth slot list --wa", "--watch"],
      ["berth slot show primary ", ""],
      ["berth chat c", "coder"],
      ["berth completion f", "fish"],
      ["berth completion no", ""],
      ["berth proxy render --file Cad", "+files"],
      // A colon separates words in bash, so the part before it must not come again.
      ["berth model show qwen3:", "4b 8b"],
      ["berth model show vendor/x", "vendor/x:free"],
    ];
    const names =
      'case $1 in slot) printf "primary\\ncoder\\n" ;; model) printf "qwen3:4b\\nqwen3:8b\\nvendor/x:free\\n" ;; esac';
    const found = await offered(
      names,
      lines.map(([line]) => line),
    );
    assert.deepEqual(
      lines.map(([line], index) => [line, found[index] ?? ""]),
      lines,
    );
    assert.deepEqual(await offered("return 1", ["berth slot show nobody"]), [""], "where no service answers");
  });

  it("runs nothing that a service has put into a name", async () => {
    await using directory = await tempDir();
    const made = join(directory.path, "made");
    const names = ["primary", `$(touch\${IFS}${made})`, `\`touch\${IFS}${made}\``, "*"];
    const found = await inBash(
      `berth() { printf '%s\\n' "$NAMES"; }`,
      `_berth; printf '%s\\n' "\${COMPREPLY[@]}"`,
      { NAMES: names.join("\n"), COMP_LINE: "berth slot show ", COMP_POINT: "16" },
      directory.path,
    );
    await assert.rejects(access(made), { code: "ENOENT" });
    // As bash itself would quote them.
    assert.deepEqual(
      found.map((word) => word.replaceAll("\\", "")),
      names,
    );
  });
});

it("zsh gets its words from the function that bash uses", () => {
  const [words = ""] = bash(tree).split("_berth() {");
  assert.equal(
    zsh(tree),
    `${words}_berth() {
  local found
  if found=($(_berth_words "\${words[CURRENT]}" "\${(@)words[2,CURRENT-1]}")); then compadd -a found; else _files; fi
}
compdef _berth berth
`,
  );
});

it("the script for fish lists each command, argument and option", () => {
  assert.equal(
    fish(tree).split("complete -c berth -f\n")[1],
    `complete -c berth -n '__berth_at ' -a slot -d 'slots'
complete -c berth -n '__berth_at ' -a install -d 'engines'
complete -c berth -l server -r -d 'whose'
complete -c berth -s V -l version -d 'which'
complete -c berth -s h -l help -d 'display help for command'
complete -c berth -n '__berth_at slot' -a swap -d 'it\\'s other model'
complete -c berth -n '__berth_after 2 slot swap' -a '(berth slot list -o name 2>/dev/null)'
complete -c berth -n '__berth_after 3 slot swap' -a '(berth model list -o name 2>/dev/null)'
complete -c berth -n '__berth_in slot swap' -s o -l output -x -a 'table json' -d 'form'
complete -c berth -n '__berth_in slot swap' -l server -r -d 'whose'
complete -c berth -n '__berth_in slot swap' -s h -l help -d 'display help for command'
complete -c berth -n '__berth_after 1 install' -a 'embedded'
complete -c berth -n '__berth_in install' -l server -r -d 'whose'
complete -c berth -n '__berth_in install' -s h -l help -d 'display help for command'
`,
  );
});
