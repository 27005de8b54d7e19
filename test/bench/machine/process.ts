import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { connect } from "node:net";
import { until } from "../../support/until.ts";

export interface Started extends AsyncDisposable {
  readonly pid: number;
  readonly logFile: string;
  hasEnded(): boolean;
  /** Resolves with the exit code once the process is gone. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

export interface StartOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly logFile: string;
}

/** Starts a program with its output in a file; disposing ends it, and so does the end of the benchmark, of any kind. */
export function startProgram(command: readonly string[], options: StartOptions): Started {
  const [program = "", ...args] = command;
  const log = openSync(options.logFile, "a");
  const child = spawn(program, args, { env: options.env ?? process.env, stdio: ["ignore", log, log] });
  closeSync(log);
  const callOff = guard(child.pid);
  const ended = new Promise<number | null>((resolve) => {
    child.once("exit", (code) => resolve(code));
    child.once("error", () => resolve(null));
  });
  void ended.then(callOff);
  const stop = async (signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
    const code = await ended;
    clearTimeout(timer);
    return code;
  };
  return {
    pid: child.pid ?? 0,
    logFile: options.logFile,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  };
}

/**
 * Ends the program when this process is gone, even by SIGKILL: the pipe to the guard closes. An operator that is left
 * behind keeps its engines, which the next benchmark would measure as noise. Answers with what calls the guard off.
 */
function guard(pid: number | undefined): () => void {
  if (pid === undefined) return () => undefined;
  const waiting = spawn("sh", ["-c", 'read -r isOver || kill -TERM "$0"', String(pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  waiting.on("error", () => undefined);
  waiting.stdin.on("error", () => undefined);
  waiting.unref();
  return () => void waiting.stdin.end("over\n");
}

/** Waits until something listens there. */
export async function listening(port: number): Promise<void> {
  await until(`port ${port} listens`, () => accepts(port));
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    const finish = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once("connect", () => finish(true));
    socket.once("error", () => finish(false));
  });
}

/** Runs a program to its end and gives its standard output. Throws when it fails. */
export async function runProgram(command: readonly string[]): Promise<string> {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const callOff = guard(child.pid);
  child.once("exit", callOff);
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0) throw new Error(`${program} ended with ${String(code)}\n${stdout}${stderr}`.trim());
  return stdout;
}
