import type { ServerFacts } from "../engines/engine.ts";
import { programOutput } from "../lib/program-output.ts";

/** A driver that hangs must not keep the operator from starting. */
const limitMs = 5000;

/**
 * Reads the flags and devices of that `llama-server`, as the user and with the environment of engines. Never rejects: a
 * fact that it does not print in time is undefined.
 */
export async function askServer(
  program: string,
  { env, engineUser }: { readonly env: NodeJS.ProcessEnv; readonly engineUser: string | undefined },
): Promise<ServerFacts> {
  const { serverFacts } = await import("../engines/server-facts.ts");
  const { inheritedPart } = await import("../runtimes/process/child.ts");
  const { findUser } = await import("../runtimes/process/user.ts");
  try {
    const user = await findUser(engineUser);
    const who = user === undefined ? {} : { uid: user.uid, gid: user.gid };
    const home = user === undefined ? {} : { HOME: user.home };
    const options = { env: { ...inheritedPart(env), ...home }, ...who };
    const signal = AbortSignal.timeout(limitMs);
    const outputOf = (flag: string): Promise<string | undefined> =>
      programOutput(program, [flag], { ...options, signal }).catch(() => undefined);
    const [help, devices] = await Promise.all([outputOf("--help"), outputOf("--list-devices")]);
    return serverFacts(help, devices);
  } catch {
    return serverFacts(undefined, undefined);
  }
}
