import type { Config } from "../api/config.ts";
import { errorCode } from "../lib/error-code.ts";

/**
 * The one line that a person needs when a start fails, with the remedy. Undefined: an unknown error, whose stack is
 * shown.
 */
export function explainStart(
  error: unknown,
  config: Pick<Config, "host" | "port" | "operatorHost" | "operatorPort" | "stateDir" | "modelsDir">,
  portName: "SVC_PORT" | "SVC_OPERATOR_PORT",
): string | undefined {
  const { stateDir, modelsDir } = config;
  const port = portName === "SVC_PORT" ? config.port : config.operatorPort;
  if (!(error instanceof Error)) return undefined;
  const code = errorCode(error);
  const path = "path" in error && typeof error.path === "string" ? error.path : undefined;
  if (code === "EADDRINUSE") {
    return `port ${port} is taken; stop that program or set ${portName} to another port`;
  }
  if (code === "EACCES" && "syscall" in error && error.syscall === "listen") {
    return `port ${port} needs privileges; set ${portName} to a port above 1023`;
  }
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND" || code === "EAI_AGAIN") {
    const setting = portName === "SVC_PORT" ? `SVC_HOST=${config.host}` : `SVC_OPERATOR_HOST=${config.operatorHost}`;
    return `${setting} is not an address of this machine`;
  }
  if (path === modelsDir && !modelsDir.startsWith(`${stateDir}/`))
    return `the models directory ${modelsDir} cannot be made: its place cannot be written; make it, or set SVC_MODELS_DIR to another one`;
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
    const next = "set SVC_STATE_DIR to a directory you own";
    // The case after one start as root.
    const back = code === "EROFS" ? "" : `, or make this one yours: sudo chown -R "$USER" '${stateDir}'`;
    return `no permission to write ${path ?? stateDir}; ${next}${back}`;
  }
  if (code === "ENOSPC" || code === "EDQUOT")
    return `no space left for ${path ?? stateDir}; make room there, or set SVC_STATE_DIR to a directory of another disk`;
  if (code === "EEXIST" && path?.startsWith(`${stateDir}/`) === true)
    return `${path} is a file, and Berth needs a directory there; move the file away`;
  if (error.name === "LockHeld") {
    if (error.message.startsWith("Lease "))
      return `another operator leads in this namespace: ${error.message}; each installation needs a namespace of its own`;
    const pid = "pid" in error ? ` (process ${String(error.pid)})` : "";
    return `another operator${pid} runs with the state directory ${stateDir}; stop it, or set SVC_STATE_DIR to another directory`;
  }
  if (error.name === "BadImagesFile" && "next" in error) return `${error.message}; ${String(error.next)}`;
  if (plainErrors.includes(error.name)) return error.message;
  return undefined;
}

/** Errors whose messages name the place and the next step. */
const plainErrors: readonly string[] = [
  "SettingsError",
  "ApiError",
  "ApiUnreachable",
  "NoConnection",
  "RuntimeUnavailable",
  "StateTooNew",
  "StateFormatUnreadable",
];
