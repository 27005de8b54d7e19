import { spawn } from "node:child_process";
import { join } from "node:path";
import { freePorts } from "./ports.ts";

export interface Run extends AsyncDisposable {
  readonly text: () => string;
  readonly errors: () => string;
  readonly url: string;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
  interrupt(): Promise<number | null>;
}

/** `make run` behind its set-up, in a directory of the test's own. */
export async function makeRun(directory: string, more: NodeJS.ProcessEnv = {}): Promise<Run> {
  const { first, last } = await freePorts(8);
  const env = {
    PATH: process.env["PATH"],
    HOME: directory,
    BERTH_RUN_DIR: join(directory, "run"),
    SVC_PORT: String(first),
    SVC_OPERATOR_PORT: String(first + 1),
    SVC_SLOT_PORTS: `${first + 2}-${last}`,
    SVC_LLAMA_SERVER: "none",
    // As the Makefile has it; without one, the directory goes with the test.
    NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? join(directory, "cache"),
    ...more,
  };
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", "hack/run.ts"], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (errors += chunk));
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  const interrupt = (): Promise<number | null> => {
    child.kill("SIGINT");
    return ended;
  };
  return {
    text: () => text,
    errors: () => errors,
    url: `http://127.0.0.1:${env.SVC_PORT}`,
    ended,
    interrupt,
    [Symbol.asyncDispose]: async () => void (await interrupt()),
  };
}

/** The last line that it says once it has chatted. */
export const greeting = "Ctrl-C stops everything.";
