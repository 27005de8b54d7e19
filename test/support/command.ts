import { spawn } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const berth = join(fileURLToPath(new URL("../..", import.meta.url)), "bin/berth");

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs `bin/berth` to its end in an environment of PATH and what is given. The operator's port is none unless it is given,
 * so that a Berth that runs on this machine is not taken for the test's own.
 */
export async function runBerth(args: readonly string[], env: NodeJS.ProcessEnv = {}, program = berth): Promise<Ended> {
  const child = spawn(program, [...args], {
    env: { PATH: process.env["PATH"], SVC_OPERATOR_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk));
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => (stderr += chunk));
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
