import { spawn, type ChildProcess } from "node:child_process";

export interface ProgramOptions {
  /** Ends the program; the promise then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  readonly env?: NodeJS.ProcessEnv;
  /** Its standard input; absent: none. */
  readonly input?: string;
  /** Its standard output is of no use, however long: the promise resolves with an empty text. */
  readonly ignoresOutput?: boolean;
  readonly uid?: number;
  readonly gid?: number;
}

/** The program ended with an exit code other than 0. */
export class ProgramFailed extends Error {
  override readonly name = "ProgramFailed";
  /** Null: ended by a signal. */
  readonly exitCode: number | null;
  /** Its standard error, the first 4 KiB. */
  readonly said: string;

  constructor(program: string, exitCode: number | null, said = "") {
    super(`${program} ended with ${exitCode ?? "a signal"}${said === "" ? "" : `: ${said}`}`);
    this.exitCode = exitCode;
    this.said = said;
  }
}

const mostBytes = 1024 ** 2;
const mostFailure = 4096;

/** Ends the program with all its child processes: its session is a process group of its own. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has already ended.
  }
}

/**
 * The output of a program, 1 MiB at most. The program has a session of its own: run as another user it must not have
 * the caller's terminal, into which it could type. A program that hangs in its driver cannot be killed: it is left
 * behind.
 */
export async function programOutput(
  program: string,
  args: readonly string[],
  { signal, ignoresOutput = false, input, ...options }: ProgramOptions,
): Promise<string> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // Where no descriptor is left for its pipes it has no streams, and reports why in the next turn.
  const child: ChildProcess = spawn(program, [...args], {
    ...options,
    detached: true,
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
  });
  child.once("error", reject);
  // The program may end without reading its input.
  child.stdin?.on("error", () => undefined).end(input);
  const leave = (reason: unknown): void => {
    killGroup(child.pid);
    child.stdout?.destroy();
    child.stderr?.destroy();
    child.unref();
    reject(reason);
  };
  const onAbort = (): void => leave(signal.reason);
  const chunks: Buffer[] = [];
  let bytes = 0;
  child.stdout?.on("data", (chunk: Buffer) => {
    if (ignoresOutput) return;
    bytes += chunk.length;
    if (bytes > mostBytes) leave(new Error(`${program} prints more than ${mostBytes} bytes`));
    else chunks.push(chunk);
  });
  let failure = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    if (failure.length < mostFailure) failure = `${failure}${text}`.slice(0, mostFailure);
  });
  child.once("close", (code) =>
    code === 0 ? resolve(Buffer.concat(chunks).toString()) : reject(new ProgramFailed(program, code, failure.trim())),
  );
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
