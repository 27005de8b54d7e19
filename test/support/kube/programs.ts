import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "../until.ts";

/** The directory of etcd, kube-apiserver and the rest, by name: hack/kube.sh builds them. */
function kubePrograms(): string {
  const dir = process.env["BERTH_TEST_KUBE"] ?? process.env["KUBEBUILDER_ASSETS"];
  if (dir === undefined) throw new Error("run this by `make test-k8s`, or set BERTH_TEST_KUBE=$(hack/kube.sh)");
  return dir;
}

/** A program of the cluster; its output is a file, and it ends with this process, however this one ends. */
export interface Program extends AsyncDisposable {
  /** Ends it as a power cut would. */
  kill(): Promise<void>;
}

export interface ProgramOptions {
  readonly logFile: string;
  readonly ready: () => Promise<boolean>;
}

/** Resolves once `ready` holds; rejects with the end of its output where it ends before. */
export async function startProgram(
  command: string,
  args: readonly string[],
  { logFile, ready }: ProgramOptions,
): Promise<Program> {
  const log = openSync(logFile, "a");
  const child = spawn("setpriv", ["--pdeathsig", "KILL", command, ...args], {
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  const ended = once(child, "exit");
  const name = command.slice(command.lastIndexOf("/") + 1);
  try {
    await until(
      `${name} is ready`,
      async () => {
        if (hasEnded(child)) return "ended";
        return (await ready().catch(() => false)) ? "ready" : undefined;
      },
      90_000,
    );
    if (hasEnded(child)) throw new Error(`${name} has ended`);
  } catch (error) {
    child.kill("SIGKILL");
    const tail = (await readFile(logFile, "utf8")).slice(-3000);
    throw new Error(`${name} did not start:\n${tail}`, { cause: error });
  }
  const end = async (signal: "SIGTERM" | "SIGKILL"): Promise<void> => {
    if (hasEnded(child)) return;
    child.kill(signal);
    const late = setTimeout(() => child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(late);
  };
  return { kill: () => end("SIGKILL"), [Symbol.asyncDispose]: () => end("SIGTERM") };
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** The path of a program of the cluster. */
export const kubeProgram = (name: string): string => join(kubePrograms(), name);
