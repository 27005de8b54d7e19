import { InvalidArgumentError, Option, type Command } from "commander";
import { formats, type Format } from "./output.ts";

/** The options of commands that print something. */
export interface Shown {
  readonly output: Format;
  readonly watch?: true;
}

/** A factory, as commander keeps an option's state and no two commands may share one. */
export function outputOption(): Option {
  return new Option("-o, --output <format>", "form of the output").choices([...formats]).default("table");
}

export const watchOption = [
  "--watch",
  "show changes as they happen, until interrupted; into a file or pipe not those of times and sizes alone",
] as const;

/** Reads a whole number from an argument; anything else is a usage error. */
export function whole(text: string): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value)) throw new InvalidArgumentError("It must be a whole number.");
  return value;
}

/** Reads a port from an argument; anything else is a usage error. */
export function port(text: string): number {
  const value = whole(text);
  if (value < 1 || value > 65_535) throw new InvalidArgumentError("It must be a port, 1 to 65535.");
  return value;
}

/** A command line and its purpose. */
export type Example = readonly [line: string, meaning: string];

const examples = new WeakMap<Command, readonly Example[]>();

/** Shows examples below the help of a command. */
export function withExamples(command: Command, ...lines: readonly Example[]): Command {
  examples.set(command, lines);
  const width = Math.max(...lines.map(([line]) => line.length));
  const text = lines.map(([line, meaning]) => `  ${line.padEnd(width)}  ${meaning}`).join("\n");
  return command.addHelpText("after", `\nExamples:\n${text}`);
}

/** The examples that `withExamples` added to the command. */
export function examplesOf(command: Command): readonly Example[] {
  return examples.get(command) ?? [];
}

/** `berth slot list`: how a command is called. */
export function callOf(command: Command): string {
  return command.parent === null ? command.name() : `${callOf(command.parent)} ${command.name()}`;
}
