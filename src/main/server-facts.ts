import type { ServerFacts } from "../engines/engine.ts";
import { programOutput } from "../lib/program-output.ts";

/** A driver that is stuck must not keep the operator from starting. */
const limitMs = 5000;

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
    const signal = AbortSignal.timeout(limitMs);
    const ask = (flag: string): Promise<string | undefined> =>
      programOutput(program, [flag], { ...options, signal }).catch(() => undefined);
    const [help, devices] = await Promise.all([ask("--help"), ask("--list-devices")]);
    return serverFacts(help, devices);
  } catch {
    return serverFacts(undefined, undefined);
  }
}
