import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { EnginePrint } from "../operator/act/learning.ts";
import { programOutput } from "../lib/program-output.ts";

/** A model's header is read, and a driver begun: a driver that hangs must not keep a slot from starting. */
const limitMs = 10_000;

/**
 * Asks the `llama-fit-params` beside a `llama-server`, as the user and with the environment of engines. The function never
 * rejects: undefined where there is no such program, or it fails.
 */
export function enginePrint(env: NodeJS.ProcessEnv, engineUser: string | undefined): EnginePrint {
  return async (server, args, more) => {
    const program = join(dirname(server), "llama-fit-params");
    try {
      await access(program, constants.X_OK);
      const { inheritedPart } = await import("../runtimes/process/child.ts");
      const { findUser } = await import("../runtimes/process/user.ts");
      const user = await findUser(engineUser);
      const who = user === undefined ? {} : { uid: user.uid, gid: user.gid };
      const home = user === undefined ? {} : { HOME: user.home };
      const signal = AbortSignal.timeout(limitMs);
      return await programOutput(program, args, { env: { ...inheritedPart(env), ...home, ...more }, ...who, signal });
    } catch {
      return undefined;
    }
  };
}
