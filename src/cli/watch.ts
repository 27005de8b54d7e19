import { setTimeout as delay } from "node:timers/promises";
import { CommandError } from "./client.ts";
import type { CommandContext } from "./context.ts";

const pollMs = 500;

/**
 * Prints a text once, or with `isWatching` again whenever it has changed, until the process is interrupted. A service
 * that goes away while it is watched is waited for; one that is not there at first is a failure.
 */
export async function show(
  { write, note }: CommandContext,
  text: () => Promise<string>,
  isWatching: boolean,
): Promise<void> {
  let last = await text();
  write(last);
  let problem: string | undefined;
  while (isWatching) {
    await delay(pollMs);
    let next: string;
    try {
      next = await text();
    } catch (error) {
      if (!(error instanceof CommandError) || error.code !== "unreachable") throw error;
      if (error.message !== problem) note(`${error.code}: ${error.message}; looking again\n`);
      problem = error.message;
      continue;
    }
    if (next === last && problem === undefined) continue;
    problem = undefined;
    last = next;
    write(process.stdout.isTTY ? `\u001B[2J\u001B[H${next}` : `\n${next}`);
  }
}
