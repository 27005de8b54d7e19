import { CommanderError } from "commander";
import { CommandError } from "../cli/client.ts";
import { runEntry, type ExplainedEnd } from "./entry.ts";
import { buildProgram } from "./program.ts";

await runEntry(async () => {
  let exitCode = 0;
  const program = buildProgram({
    env: process.env,
    write: (text) => void process.stdout.write(text),
    note: (text) => void process.stderr.write(text),
    screen: process.stderr,
    exit: (code) => {
      exitCode = code;
    },
  });
  await program.parseAsync([...process.argv]);
  return exitCode;
}, explained);

/** Commander has printed its errors itself; of a command's error, `code: message`, then the remedy. */
function explained(error: unknown): ExplainedEnd | undefined {
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? 0 : 2, lines: [] };
  if (!(error instanceof CommandError)) return undefined;
  const { code, message, next } = error;
  return { exitCode: 1, lines: [`${code}: ${message}`, ...(next === undefined ? [] : [next])] };
}
