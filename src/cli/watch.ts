import { setTimeout as delay } from "node:timers/promises";
import { CommandError, type Client } from "./client.ts";
import type { CommandContext } from "./context.ts";

const pollMs = 500;

/** What moves by itself: a screen shows it move, and a file would be filled by it. */
const moving = new Set(["uptime_seconds", "memory_bytes", "free_bytes", "progress", "last"]);

/**
 * Prints a text once, or with `isWatching` again whenever it has changed, until the process is interrupted; where
 * output is no terminal, times and sizes that move by themselves are no change. A service that goes away while it is
 * watched is waited for; one that is not there at first is a failure.
 */
export async function show(
  { write, note, client: connect }: CommandContext,
  text: (client: Client) => Promise<string>,
  isWatching: boolean,
): Promise<void> {
  const client = await connect();
  if (!isWatching) {
    write(await text(client));
    return;
  }
  const { isTTY } = process.stdout;
  const compared = isTTY ? client : client.withoutFields(moving);
  let last: string | undefined;
  let problem: string | undefined;
  for (;;) {
    try {
      const next = await text(compared);
      if (next !== last || problem !== undefined) {
        const shown = isTTY ? next : await text(client);
        write(last === undefined ? shown : isTTY ? `\u001B[2J\u001B[H${shown}` : `\n${shown}`);
        last = next;
        problem = undefined;
      }
    } catch (error) {
      if (last === undefined || !(error instanceof CommandError) || error.code !== "unreachable") throw error;
      if (error.message !== problem) note(`${error.code}: ${error.message}; looking again\n`);
      problem = error.message;
    }
    await delay(pollMs);
  }
}
