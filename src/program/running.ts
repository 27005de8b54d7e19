import { defaultConfigDir, defaultStateDir } from "../api/config.ts";
import { isRecord } from "../lib/record.ts";
import { placesOf } from "./settings.ts";

/** An operator on a busy machine took more than one second. */
const answerMs = 5000;
const defaultPort = 8079;
const variables = {
  configDir: "SVC_CONFIG_DIR",
  stateDir: "SVC_STATE_DIR",
  modelsDir: "SVC_MODELS_DIR",
  host: "SVC_HOST",
  port: "SVC_PORT",
  authEnabled: "SVC_AUTH_ENABLED",
} as const;

/**
 * For a command on this machine's files: where no directory is given, and an operator runs here with other directories
 * than this user's own, as that of `make run` does, the command uses its directories and its gateway's address, and
 * `note` reports that. Otherwise the command would change files that no service reads, or find no engines.
 */
export async function followRunning(env: NodeJS.ProcessEnv, note: (text: string) => void): Promise<void> {
  if (env["SVC_CONFIG_DIR"] || env["SVC_STATE_DIR"]) return;
  const port = Number(env["SVC_OPERATOR_PORT"] || defaultPort);
  const found = await placesAt(port, note);
  if (found === undefined) return;
  const own = placesOf(env);
  const isOwn = found["configDir"] === defaultConfigDir(own) && found["stateDir"] === defaultStateDir(own);
  if (isOwn || !(await isTrusted(port))) return;
  for (const [key, name] of Object.entries(variables)) {
    const value = found[key];
    if (["string", "number", "boolean"].includes(typeof value) && !env[name]) env[name] = String(value);
  }
  note(
    `acting on the Berth that runs here: configuration ${env["SVC_CONFIG_DIR"] ?? ""}, state ${env["SVC_STATE_DIR"] ?? ""} ` +
      "(SVC_CONFIG_DIR and SVC_STATE_DIR name another)\n",
  );
}

async function placesAt(
  port: number,
  note: (text: string) => void,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (!Number.isInteger(port) || port < 1) return undefined;
  try {
    const url = `http://127.0.0.1:${port}/instance`;
    const response = await fetch(url, { signal: AbortSignal.timeout(answerMs), redirect: "manual" });
    const found: unknown = await response.json();
    return isRecord(found) && found["name"] === "berth" ? found : undefined;
  } catch (error) {
    if (error instanceof Error && error.name === "TimeoutError")
      note(
        `127.0.0.1:${port}, where an operator would answer (SVC_OPERATOR_PORT), does not answer for ${answerMs / 1000} s: ` +
          "acting on this user's own configuration and state\n",
      );
    return undefined;
  }
}

/**
 * Any program may listen there: a stranger must not choose the files that this user's commands change. For root every
 * other user is a stranger, also where the directories are that user's own: root's terminal and input would be exposed.
 */
async function isTrusted(port: number): Promise<boolean> {
  const { loopbackListenerUid } = await import("../runtimes/process/proc.ts");
  const uid = loopbackListenerUid(port);
  return uid !== undefined && (uid === 0 || uid === process.getuid?.());
}
