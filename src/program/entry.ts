import { watchOutput } from "./lost-output.ts";

/** How a process ends that has failed for a reason that a person can mend. */
export interface ExplainedEnd {
  readonly exitCode: number;
  /** For standard error: the error, then the remedy. */
  readonly lines: readonly string[];
}

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

/** Runs this process to its exit code: 0 done, 1 failed, 2 usage. */
export async function runEntry(run: () => Promise<number>): Promise<void> {
  watchOutput();
  // With any umask of a shell or a unit: files that others may write would be refused by the next command.
  process.umask(process.umask() | 0o022);
  process.exitCode = await exitCodeOf(run, (text) => void process.stderr.write(text));
  // An open channel to `berth up` would keep a part alive that could not start, and `up` would wait for its end.
  if (process.connected) process.disconnect();
}

/**
 * Runs a command to its exit code, and notes why it failed. `explain` may add errors of the caller's own; an error that
 * nobody explains is a defect of Berth, and is thrown: its stack is shown.
 */
export async function exitCodeOf(
  run: () => Promise<number>,
  note: (text: string) => void,
  explain: (error: unknown) => ExplainedEnd | undefined = () => undefined,
): Promise<number> {
  try {
    return await run();
  } catch (error) {
    const end = explain(error) ?? explained(error);
    if (end === undefined) throw error;
    for (const line of end.lines) note(`${line}\n`);
    return end.exitCode;
  }
}

function explained(error: unknown): ExplainedEnd | undefined {
  if (error instanceof Error && error.name === "SettingsError")
    return { exitCode: 1, lines: error.message.split("\n").map((line) => `config.invalid: ${line}`) };
  // Errors of the system begin with their code: `EACCES: permission denied, open '/etc/berth/berth.toml'`.
  if (error instanceof Error && "syscall" in error && "code" in error) {
    const step = systemSteps[String(error.code)];
    return { exitCode: 1, lines: [error.message, ...(step === undefined ? [] : [step])] };
  }
  return undefined;
}
