/**
 * The process of the operator or of the gateway below `berth up`, as the command of that name. It does not load the
 * command line, which takes 1 to 2 MiB of each.
 */
import { runEntry } from "./entry.ts";

const { env } = process;

const parts = {
  operator: async () => (await import("./operator.ts")).operator({ env, paused: false, stopsEngines: true }),
  serve: async () => (await import("./serve.ts")).serve({ env }),
};

/** The process's only argument. */
export type PartCommand = keyof typeof parts;

const name = process.argv[2];
const run = Object.entries(parts).find(([part]) => part === name)?.[1];
if (run === undefined) throw new Error(`no part of \`berth up\`: ${name ?? "(no name)"}`);
await runEntry(run);
