import { didYouMean, nearest } from "../api/nearest.ts";
import { CommandError, type Client } from "./client.ts";
import { cell, renderOne, type Format } from "./output.ts";

export type Row = Readonly<Record<string, unknown>>;

/** A kind whose list has all that is known of each: groups and providers. */
export interface DeclaredKind {
  readonly path: string;
  /** In sentences. */
  readonly word: string;
  /** Its command of `berth`; with an s also the name of its page in docs. */
  readonly command: string;
}

/** The resource of that name. Throws CommandError where none has it. */
export function named(name: string, all: readonly Row[], { word, command }: DeclaredKind): Row {
  const found = all.find((each) => each["name"] === name);
  if (found !== undefined) return found;
  const names = all.map((each) => cell(each["name"]));
  throw new CommandError(
    "system.not_found",
    `there is no ${word} called ${name}${didYouMean(nearest(name, names))}`,
    `see \`berth ${command} list\`; docs/${command}s.md says how one is declared`,
  );
}

/** `show` of such a kind; `linesOf` writes it for a person. Throws CommandError. */
export async function showDeclared(
  client: Client,
  kind: DeclaredKind,
  name: string,
  format: Format,
  linesOf: (row: Row) => Promise<readonly string[]>,
): Promise<string> {
  const found = named(name, await client.list(kind.path), kind);
  if (format === "json" || format === "yaml") return await renderOne(found, format);
  if (format === "name") return `${name}\n`;
  return (await linesOf(found)).map((line) => `${line}\n`).join("");
}

/** A line of `show`. */
export function fieldLine(title: string, value: unknown): string {
  return `${`${title}:`.padEnd(16)}${cell(value)}`;
}
