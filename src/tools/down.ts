import type { Config } from "../api/config.ts";
import { CommandError } from "../cli/client.ts";
import { explainStart } from "../program/failure.ts";
import { become } from "../program/owner.ts";
import { readSettings } from "../program/settings.ts";

const limits = { stopSeconds: 30, listTimeoutMs: 15_000 } as const;

/**
 * `berth down`: ends every engine of this instance. Throws CommandError, SettingsError. Resolves with the exit code.
 */
export async function down({ env, write }: { env: NodeJS.ProcessEnv; write: (text: string) => void }): Promise<number> {
  // Records name the processes to end: for root, the writer of a record could have any process ended.
  const { config } = await readSettings(env, { takeOwner: (owner) => become(owner, env) });
  const slots = await endEngines(config);
  write(
    slots.length === 0 ? `no engine runs by the state directory ${config.stateDir}\n` : `stopped ${slots.join(", ")}\n`,
  );
  return 0;
}

/**
 * Ends every engine of this instance; returns the slots that had one. Throws CommandError where an operator runs, since
 * it would start them again.
 */
export async function endEngines(config: Config): Promise<readonly string[]> {
  const { stopAllEngines } = await import("../operator/act/down.ts");
  try {
    return await stopAllEngines(config, limits);
  } catch (error) {
    const line = explainStart(error, config, "SVC_OPERATOR_PORT");
    if (line === undefined) throw error;
    const isRunning = error instanceof Error && error.name === "LockHeld";
    const next = "stop the operator or `berth up` first: it would start them again";
    throw new CommandError(isRunning ? "operator.running" : "down.failed", line, isRunning ? next : undefined);
  }
}
