import { setTimeout as delay } from "node:timers/promises";
import { CommandError, type Client } from "./client.ts";
import type { CommandContext } from "./context.ts";

const pollMs = 500;

/** Fields that change continuously: a screen shows each change, but they would fill a file. */
const moving = new Set(["uptime_seconds", "memory_bytes", "free_bytes", "progress", "last"]);

/**
 * Prints a text once, or with `isWatching` at every change, until the process is interrupted; without a terminal, times
 * and sizes that change continuously are no change. A service that goes away during the watch is waited for; one that
 * is absent at first is a failure.
 */
export async function show(
  { write, note, output, client: connect }: CommandContext,
  text: (client: Client) => Promise<string>,
  isWatching: boolean,
): Promise<void> {
  const client = await connect();
  if (!isWatching) {
    write(await text(client));
    return;
  }
  const isTTY = output.isTTY === true;
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
