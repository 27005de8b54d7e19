import { hostname, networkInterfaces } from "node:os";
import { defaultConfigDir, defaultStateDir } from "../api/config-places.ts";
import { CommandError } from "../cli/client.ts";
import { isRecord } from "../lib/record.ts";
import { placesOf } from "./settings.ts";

/** An operator on a busy machine took more than one second. */
const usualAnswerMs = 5000;
const defaultPort = 8079;
const variables = {
  configDir: "SVC_CONFIG_DIR",
  stateDir: "SVC_STATE_DIR",
  modelsDir: "SVC_MODELS_DIR",
  host: "SVC_HOST",
  port: "SVC_PORT",
  authEnabled: "SVC_AUTH_ENABLED",
} as const;

export interface FollowOptions {
  /** The service that the person named; absent: the service of this machine. */
  readonly server?: string | undefined;
  readonly note: (text: string) => void;
  /** Milliseconds until a page that does not answer counts as absent; 5000 where absent. */
  readonly answerMs?: number;
}

/**
 * For a command on this machine's files: where no directory is given, and an operator runs here with other directories
 * than this user's own, as that of `make run` does, the command uses its directories and its gateway's address, and
 * `note` reports that. Otherwise the command would change files that no service reads, or find no engines. Throws
 * CommandError where a running `server` was named and its directories cannot be found.
 */
export async function followRunning(env: NodeJS.ProcessEnv, options: FollowOptions): Promise<void> {
  const { server, note, answerMs = usualAnswerMs } = options;
  if (env["SVC_CONFIG_DIR"] || env["SVC_STATE_DIR"]) return;
  const url = server === undefined ? undefined : urlOf(server);
  if (url !== undefined && !isHere(url)) throw placesUnknown(url.origin, "it is a service of another machine");
  const port = Number(env["SVC_OPERATOR_PORT"] || defaultPort);
  const found = await placesAt(port, note, answerMs);
  const why = url === undefined ? undefined : await doubt(url, port, found, answerMs);
  if (url !== undefined && why !== undefined) throw placesUnknown(url.origin, why);
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

function urlOf(server: string): URL {
  if (URL.canParse(server)) return new URL(server);
  throw placesUnknown(server.replace(/^.*@/, "…@"), "that is not the address of a service");
}

/** Whether it is an address of this machine. */
function isHere(server: URL): boolean {
  const host = server.hostname.replace(/^\[(.*)\]$/, "$1");
  if (/^(?:localhost|127(?:\.\d+){3}|::1|0\.0\.0\.0|::)$/.test(host) || host === hostname().toLowerCase()) return true;
  return Object.values(networkInterfaces()).some((each) => each?.some(({ address }) => address === host));
}

/** Why the operator at the port says nothing about the named service; undefined: it says it, or no service runs there. */
async function doubt(
  server: URL,
  port: number,
  found: Readonly<Record<string, unknown>> | undefined,
  answerMs: number,
): Promise<string | undefined> {
  const where = `127.0.0.1:${port} (SVC_OPERATOR_PORT)`;
  if (found === undefined) {
    const isRunning = await fetch(server, { signal: AbortSignal.timeout(answerMs), redirect: "manual" }).then(
      () => true,
      () => false,
    );
    return isRunning ? `no operator answers on ${where}` : undefined;
  }
  const gatewayPort = Number(server.port || (server.protocol === "https:" ? 443 : 80));
  if (found["port"] !== gatewayPort)
    return `the operator on ${where} belongs to the service on port ${String(found["port"])}`;
  return (await isTrusted(port)) ? undefined : `the operator on ${where} is another user's`;
}

function placesUnknown(server: string, why: string): CommandError {
  return new CommandError(
    "server.places",
    `this command acts on files of this machine, and those of ${server} are not known: ${why}`,
    "name them in SVC_CONFIG_DIR and SVC_STATE_DIR; or leave out --server and unset SVC_URL, for the service of this machine",
  );
}

async function placesAt(
  port: number,
  note: (text: string) => void,
  answerMs: number,
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
