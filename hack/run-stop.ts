import { CommandError } from "../src/cli/client.ts";
import { errorMessage } from "../src/lib/error-code.ts";
import { access } from "node:fs/promises";

/** A line for a person, with the remedy. */
export class Stop extends Error {}

export async function exists(path: string): Promise<boolean> {
  return await access(path).then(
    () => true,
    () => false,
  );
}

/** An error for a person. */
export function textOf(error: unknown): string {
  if (!(error instanceof CommandError)) return errorMessage(error);
  return `${error.code}: ${error.message}${error.next === undefined ? "" : `; ${error.next}`}`;
}

/** On standard error, for a person. */
export function complain(message: string): void {
  process.stderr.write(
    `${message
      .split("\n")
      .map((line) => `make run: ${line}`)
      .join("\n")}\n`,
  );
}
