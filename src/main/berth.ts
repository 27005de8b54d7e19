import { CommanderError } from "commander";
import { CommandError } from "../cli/client.ts";
import { watchOutput } from "../program/lost-output.ts";
import { buildProgram } from "./program.ts";

/** The remedy for an error of the system, by its code. */
const systemSteps: Readonly<Record<string, string>> = {
  EACCES: "run this as the user that owns it, or name another place",
  EPERM: "run this as the user that owns it, or name another place",
  EROFS: "name a place that can be written",
  ENOENT: "check the name; directories are not made",
  ENOTDIR: "check the name; a part of it is no directory",
  EISDIR: "name a file",
  ENOSPC: "make room",
};

watchOutput();
// With any umask of a shell or a unit: files that others may write would be refused by the next command.
process.umask(process.umask() | 0o022);
/** Exit codes: 0 done, 1 failed, 2 usage. */
process.exitCode = await run(process.argv);
// An open channel to `berth up` would keep a part alive that could not start, and `up` would wait for its end.
if (process.connected) process.disconnect();

async function run(argv: readonly string[]): Promise<number> {
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
  try {
    await program.parseAsync([...argv]);
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const lines = explained(error);
    if (lines === undefined) throw error;
    process.stderr.write(`${lines.join("\n")}\n`);
    return 1;
  }
}

/** `code: message`, then the remedy. Undefined: a defect of Berth, whose stack is shown. */
function explained(error: unknown): readonly string[] | undefined {
  if (error instanceof CommandError) {
    return [`${error.code}: ${error.message}`, ...(error.next === undefined ? [] : [error.next])];
  }
  if (error instanceof Error && error.name === "SettingsError") {
    return error.message.split("\n").map((line) => `config.invalid: ${line}`);
  }
  // Errors of the system begin with their code: `EACCES: permission denied, open '/etc/berth/berth.toml'`.
  if (error instanceof Error && "syscall" in error && "code" in error) {
    const step = systemSteps[String(error.code)];
    return [error.message, ...(step === undefined ? [] : [step])];
  }
  return undefined;
}
