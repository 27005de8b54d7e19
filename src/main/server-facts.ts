import { execFile } from "node:child_process";
import type { ServerFacts } from "../engines/engine.ts";

/** A driver that is stuck must not keep the operator from starting. */
const limitMs = 5000;
/** Help of today's version has 60 KB. */
const mostBytes = 1024 ** 2;

/**
 * Asks that `llama-server` what it takes and on what it computes, as the user and with the environment of engines. Never
 * rejects: what it does not say in time is undefined.
 */
export async function askServer(
  program: string,
  { env, engineUser }: { readonly env: NodeJS.ProcessEnv; readonly engineUser: string | undefined },
): Promise<ServerFacts> {
  const { serverFacts } = await import("../engines/server-facts.ts");
  const { inheritedPart } = await import("../runtimes/child.ts");
  const { findUser } = await import("../runtimes/user.ts");
  try {
    const user = await findUser(engineUser);
    const who = user === undefined ? {} : { uid: user.uid, gid: user.gid };
    const home = user === undefined ? {} : { HOME: user.home };
    const options = { env: { ...inheritedPart(env), ...home }, ...who };
    const ask = (flag: string): Promise<string | undefined> => output(program, flag, options);
    const [help, devices] = await Promise.all([ask("--help"), ask("--list-devices")]);
    return serverFacts(help, devices);
  } catch {
    return serverFacts(undefined, undefined);
  }
}

async function output(
  program: string,
  flag: string,
  options: { readonly env: NodeJS.ProcessEnv; readonly uid?: number; readonly gid?: number },
): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const limits = { timeout: limitMs, killSignal: "SIGKILL", maxBuffer: mostBytes } as const;
  const child = execFile(program, [flag], { ...options, ...limits }, (error, stdout) =>
    resolve(error === null ? stdout : undefined),
  );
  // One that hangs in its driver cannot be killed: it is left behind.
  const timer = setTimeout(() => {
    child.stdout?.destroy();
    child.stderr?.destroy();
    child.unref();
    resolve(undefined);
  }, limitMs + 500);
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
  }
}
