import { CommanderError } from "commander";
import { CommandError } from "../cli/client.ts";
import { exitCodeOf, type ExplainedEnd } from "../program/entry.ts";
import { buildProgram, type ProgramContext } from "./program.ts";

/** Runs the words after `berth` to their exit code: 0 done, 1 failed, 2 usage. Rejects for a defect of Berth. */
export async function runCommandLine(words: readonly string[], context: Omit<ProgramContext, "exit">): Promise<number> {
  let exitCode = 0;
  const program = buildProgram({
    ...context,
    exit: (code) => {
      exitCode = code;
    },
  });
  const run = async (): Promise<number> => {
    await program.parseAsync([...words], { from: "user" });
    return exitCode;
  };
  return await exitCodeOf(run, context.note, explained);
}

/** Commander has printed its errors itself; of a command's error, `code: message`, then the remedy. `usage:` always ends with 2. */
function explained(error: unknown): ExplainedEnd | undefined {
  if (error instanceof CommanderError) return { exitCode: error.exitCode === 0 ? 0 : 2, lines: [] };
  if (!(error instanceof CommandError)) return undefined;
  const { code, message, next } = error;
  return { exitCode: code === "usage" ? 2 : 1, lines: [`${code}: ${message}`, ...(next === undefined ? [] : [next])] };
}
