import { spawn } from "node:child_process";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { runCommandLine } from "../../src/main/command-line.ts";

const berth = join(fileURLToPath(new URL("../..", import.meta.url)), "bin/berth");

/** A sequence that begins or ends a colour. */
const colour = new RegExp(String.raw`\x1b\[3\dm`, "g");

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * The environment of a command: PATH and what is given. The operator's port is none unless it is given, so that a Berth that
 * runs on this machine is not taken for the test's own.
 */
function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { PATH: process.env["PATH"], SVC_OPERATOR_PORT: "0", ...env };
}

/**
 * Runs a command of `berth` to its end in the process of the test, with a text on its standard input. For a command that
 * ends by itself, and leaves its process as it was: no service, no `--watch`, no change of user.
 */
export async function runBerth(words: readonly string[], env: NodeJS.ProcessEnv = {}, typed = ""): Promise<Ended> {
  const said = { stdout: "", stderr: "" };
  const write = (text: string): void => void (said.stdout += text);
  const note = (text: string): void => void (said.stderr += text);
  const code = await runCommandLine(words, {
    env: environment(env),
    input: () => Readable.from([Buffer.from(typed)], { objectMode: false }),
    output: streamTo(write),
    screen: streamTo(note),
    write,
    note,
  });
  // Where its reporter has a terminal, `node --test` has the processes of tests colour what they print.
  return { code, stderr: said.stderr, stdout: said.stdout.replaceAll(colour, "") };
}

function streamTo(take: (text: string) => void): Writable {
  return new Writable({
    write(chunk, _encoding, done) {
      take(String(chunk));
      done();
    },
  });
}

/** Runs `bin/berth`, or another program, to its end in a separate process; otherwise as `runBerth`. */
export async function berthProcess(
  words: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { program = berth, ...more }: ProcessOptions & { readonly program?: string } = {},
): Promise<Ended> {
  return await endOf(program, words, environment(env), more);
}

interface ProcessOptions {
  /** A text on its standard input. */
  readonly typed?: string;
  readonly cwd?: string;
  readonly uid?: number;
  readonly gid?: number;
}

/** Runs a program to its end. `env` is added to PATH. */
export async function endOf(
  program: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv = {},
  { typed = "", ...more }: ProcessOptions = {},
): Promise<Ended> {
  const child = spawn(program, [...words], { env: { PATH: process.env["PATH"], ...env }, stdio: "pipe", ...more });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (stderr += chunk));
  // A program may end without reading it.
  child.stdin.on("error", () => undefined);
  child.stdin.end(typed);
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
