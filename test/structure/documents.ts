import { posix } from "node:path";
import { anchorOf } from "../../site/links.ts";

/** A path of the repository as texts write it, in back-ticks and without a pattern. */
const path = /`((?:src|test|hack|docs|manifests|charts|bin|crds)\/[\w./-]+|(?:web|site)\/[\w./-]+\.\w+)`/g;
/** The same as a word of a command, relative to the repository. */
const word = /(?<=[ =])((?:test|hack|docs|manifests|charts)\/[\w./-]+)(?=[\s"']|$)/gm;
const codeBlock = /^( *)```[^]*?^\1```$/gm;
const link = /\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g;

/** Links that lead nowhere, and paths that are not there. `files`: texts by path; others have an empty one. */
export function lintLinks(files: ReadonlyMap<string, string>): string[] {
  const folders = new Set([...files.keys()].flatMap(parents));
  const isThere = (target: string): boolean => files.has(target) || folders.has(target.replace(/\/$/, ""));
  const problems: string[] = [];
  for (const [file, text] of files) {
    if (!file.endsWith(".md")) continue;
    for (const [, to = "", anchor] of text.matchAll(link)) {
      const target = to === "" ? file : posix.join(posix.dirname(file), to);
      if (!isThere(target)) problems.push(`${file}: ${to} is not there`);
      else if (anchor !== undefined && !anchorsOf(files.get(target) ?? "").has(anchor)) {
        problems.push(`${file}: ${to} has no heading #${anchor}`);
      }
    }
    const blocks = [...text.matchAll(codeBlock)].map(([block]) => block).join("\n");
    for (const [, named = ""] of [...text.matchAll(path), ...blocks.matchAll(word)]) {
      if (!isThere(named) && !isThere(`${named}.ts`)) problems.push(`${file}: ${named} is not there`);
    }
  }
  return problems;
}

/** Citations in comments of decisions and sections of the contract that do not exist. */
export function lintCitations(files: ReadonlyMap<string, string>): string[] {
  const decisions = new Set(
    [...textOf(files, "docs/decisions.md").matchAll(/^(\d+)\. /gm)].map(([, number]) => number),
  );
  const sections = new Set(tableRows(textOf(files, "docs/contract.md")).map(([section]) => section));
  const problems: string[] = [];
  for (const [file, text] of files) {
    if (!file.endsWith(".ts")) continue;
    for (const [, first, second] of text.matchAll(/DECISIONS (\d+)(?: and (\d+))?/g)) {
      for (const number of [first, second]) {
        if (number !== undefined && !decisions.has(number)) problems.push(`${file}: there is no decision ${number}`);
      }
    }
    for (const [, section = ""] of text.matchAll(/CONTRACT "([^"(]+)"/g)) {
      if (!sections.has(section)) problems.push(`${file}: the contract has no section ${section}`);
    }
  }
  return problems;
}

/** Two decision records of one number, and a record whose title has another number than its file. */
export function lintRecords(files: ReadonlyMap<string, string>): string[] {
  const problems: string[] = [];
  const known = new Map<string, string>();
  for (const [file, text] of files) {
    const [, number] = /^docs\/adr\/(\d{4})-[^/]+\.md$/.exec(file) ?? [];
    if (number === undefined) continue;
    const other = known.get(number);
    if (other !== undefined) problems.push(`${file}: ${other} has that number`);
    known.set(number, file);
    if (!text.startsWith(`# ${Number(number)}. `)) problems.push(`${file}: its title has another number`);
  }
  return problems;
}

/** Cells of every row of the tables in a text, without their back-ticks. */
export function tableRows(text: string): string[][] {
  return [...text.matchAll(/^\|(.*)\|$/gm)].map(([, row = ""]) =>
    row.split("|").map((cell) => cell.trim().replaceAll("`", "")),
  );
}

function textOf(files: ReadonlyMap<string, string>, name: string): string {
  return files.get(name) ?? "";
}

function parents(file: string): string[] {
  const folder = posix.dirname(file);
  return folder === "." ? ["."] : [folder, ...parents(folder)];
}

/** The anchors that GitHub makes of headings: of two that are the same, the second ends in -1. */
function anchorsOf(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of text.replaceAll(codeBlock, "").matchAll(/^#+ (.*)$/gm)) {
    const anchor = anchorOf(heading);
    const isTaken = (number: number): boolean => anchors.has(number === 0 ? anchor : `${anchor}-${number}`);
    let number = 0;
    while (isTaken(number)) number += 1;
    anchors.add(number === 0 ? anchor : `${anchor}-${number}`);
  }
  return anchors;
}

/** Pages of `docs/` that no chain of links from docs/README.md reaches. */
export function unreachable(files: ReadonlyMap<string, string>): string[] {
  const reached = new Set(["docs/README.md"]);
  for (const file of reached) {
    for (const [, to = ""] of textOf(files, file).matchAll(link)) {
      const target = posix.join(posix.dirname(file), to).replace(/\/$/, "/README.md");
      if (target.startsWith("docs/") && files.has(target)) reached.add(target);
    }
  }
  return [...files.keys()].filter((file) => /^docs\/.*\.md$/.test(file) && !reached.has(file));
}
