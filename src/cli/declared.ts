import { didYouMean, nearest } from "../api/nearest.ts";
import { CommandError } from "./client.ts";
import { cell, renderOne, type Format } from "./output.ts";

/** A kind whose list has all that is known of each: groups and providers. */
export interface DeclaredKind {
  /** In sentences. */
  readonly word: string;
  /** Its command of `berth`; with an s also the name of its page in docs. */
  readonly command: string;
}

interface Named {
  readonly name?: string | null | undefined;
}

/** The resource of that name. Throws CommandError where none has it. */
export function named<Row extends Named>(name: string, all: readonly Row[], { word, command }: DeclaredKind): Row {
  const found = all.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = all.map((each) => cell(each.name));
  throw new CommandError(
    "system.not_found",
    `there is no ${word} called ${name}${didYouMean(nearest(name, names))}`,
    `see \`berth ${command} list\`; docs/${command}s.md says how one is declared`,
  );
}

/** `show` of such a kind; `linesOf` writes it for a person. */
export async function showDeclared<Row extends Named>(
  found: Row,
  format: Format,
  linesOf: (row: Row) => Promise<readonly string[]>,
): Promise<string> {
  if (format === "json" || format === "yaml") return await renderOne(found, format);
  if (format === "name") return `${cell(found.name)}\n`;
  return (await linesOf(found)).map((line) => `${line}\n`).join("");
}

/** A line of `show`. */
export function fieldLine(title: string, value: unknown): string {
  return `${`${title}:`.padEnd(16)}${cell(value)}`;
}
