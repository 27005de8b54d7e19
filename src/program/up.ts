import { flushCompileCache } from "node:module";
import { fileURLToPath } from "node:url";
import { readSettings } from "./settings.ts";
import { supervise, type RunningUp } from "./supervisor.ts";

const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
const supervisor = fileURLToPath(new URL(`supervise.${extension}`, import.meta.url));

/**
 * `berth up`. The process becomes the supervisor, which needs a fraction of the memory that commands and settings have
 * taken. Resolves with the exit code where it cannot: another program's channel to this process would be lost.
 */
export async function up({ env }: { env: NodeJS.ProcessEnv }): Promise<number> {
  const { config } = await readSettings(env);
  if (process.execve !== undefined && !process.connected) {
    flushCompileCache();
    const { execPath, execArgv } = process;
    process.execve(execPath, [execPath, ...execArgv, supervisor, config.logLevel], env);
  }
  return await supervise({ env, logLevel: config.logLevel }).ended;
}

/** `berth up` within this process. */
export async function startUp({ env }: { env: NodeJS.ProcessEnv }): Promise<RunningUp> {
  const { config } = await readSettings(env);
  return supervise({ env, logLevel: config.logLevel });
}
