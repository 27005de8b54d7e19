import type { Command, Option } from "commander";

/** What a command line may name: the program's commands with their options, and the targets of the Makefile. */
export interface Known {
  readonly program: Command;
  readonly targets: ReadonlySet<string>;
}

/** Where a shell begins a command, with variables set before it; `berth` in an argument is none. */
const begin = String.raw`(?:^|&&|\|\|?|;|\$\(|\bexec| -- |\bsudo(?: -u \S+)?)\s*(?:\w+=\S*\s+)*`;
const berth = new RegExp(String.raw`${begin}(?:\S*bin/)?berth +([^|;&)#\n]+)`, "gm");
const make = new RegExp(String.raw`${begin}make +((?:-C \S+ +)?[^|;&)#\n]+)`, "gm");

/** Commands and options of Berth, and targets of make, that documents name and that are not there; by file. */
export function lintCommands(files: ReadonlyMap<string, string>, known: Known): string[] {
  const problems: string[] = [];
  for (const [file, text] of files) {
    if (!file.endsWith(".md")) continue;
    for (const code of codeOf(text)) {
      for (const [, words = ""] of code.matchAll(berth)) {
        const problem = problemOf(known.program, wordsOf(words));
        if (problem !== undefined) problems.push(`${file}: berth ${words.trim()}: ${problem}`);
      }
      for (const [, words = ""] of code.matchAll(make)) {
        const [target = ""] = wordsOf(words.replace(/^-C \S+/, "")).filter((word) => !word.includes("="));
        if (/^[a-z]/.test(target) && !known.targets.has(target)) problems.push(`${file}: make ${target} is no target`);
      }
    }
  }
  return problems;
}

/** The shell's lines of a document: code blocks, lines that `\` continues as one, and code within sentences. */
export function codeOf(text: string): string[] {
  const blocks = [...text.matchAll(/^( *)```(?:sh|console)\n([^]*?)^\1```$/gm)].map(([, , block = ""]) =>
    block.replaceAll(/\\\n/g, " ").replaceAll(/^ *(?:#.*|\$ )/gm, ""),
  );
  const prose = text.replaceAll(/^( *)```[^]*?^\1```$/gm, "").replaceAll(/<!--[^]*?-->/g, "");
  return [...blocks, ...[...prose.matchAll(/`([^`]+)`/g)].map(([, span = ""]) => span.replaceAll(/\s+/g, " "))];
}

function wordsOf(line: string): string[] {
  return [...line.matchAll(/"[^"]*"|'[^']*'|[^\s"']+/g)].map(([word]) => word);
}

function problemOf(program: Command, words: readonly string[]): string | undefined {
  let command = program;
  let isValue = false;
  for (const word of words) {
    if (isValue) isValue = false;
    else if (/^(?:2?>|…|\.\.\.)/.test(word)) return undefined;
    else if (/^--?[a-z]/i.test(word)) {
      const [name = "", value] = word.replace(/[\],]+$/, "").split("=");
      const option = optionOf(command, name);
      if (option === undefined && name !== "--help") return `there is no option ${name}`;
      isValue = option?.required === true && value === undefined;
    } else if (command.commands.length > 0 && /^[a-z]/.test(word)) {
      if (command === program && word === "help") return undefined;
      const next = command.commands.find((each) => each.name() === word || each.aliases().includes(word));
      if (next === undefined) return `there is no command ${word}`;
      command = next;
    }
  }
  return undefined;
}

/** The option of the command, or of one above it. */
function optionOf(command: Command, name: string): Option | undefined {
  const own = command.options.find(({ short, long }) => name === short || name === long);
  return own ?? (command.parent === null ? undefined : optionOf(command.parent, name));
}
