import { spawn } from "node:child_process";
import { until } from "../support/until.ts";

/** A server of another project as a child: nothing of it is left when disposed. */
export async function startServer(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  isReady: () => Promise<boolean>,
): Promise<AsyncDisposable & { readonly log: () => string }> {
  const child = spawn(program, [...args], {
    env: { PATH: `${process.env["PATH"] ?? ""}:/usr/sbin`, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  let problem: Error | undefined;
  child.stdout.on("data", (bytes: Buffer) => (log += bytes.toString()));
  child.stderr.on("data", (bytes: Buffer) => (log += bytes.toString()));
  child.once("error", (error) => (problem = error));
  const ended = new Promise<void>((resolve) => {
    child.once("error", () => resolve());
    child.once("exit", () => resolve());
  });
  const owned = {
    log: () => log,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
      await ended;
    },
  };
  try {
    const hasEnded = (): boolean => problem !== undefined || child.exitCode !== null || child.signalCode !== null;
    await until(`${program} answers`, async () => hasEnded() || (await isReady()));
    if (problem !== undefined)
      throw new Error(`${program} cannot be run; make test-edge installs it`, { cause: problem });
    if (hasEnded()) throw new Error(`${program} ended with ${child.exitCode ?? child.signalCode}`);
  } catch (error) {
    await owned[Symbol.asyncDispose]();
    throw new Error(log, { cause: error });
  }
  return owned;
}
