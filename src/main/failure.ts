import type { Config } from "../api/config.ts";
import { errorCode } from "../lib/error-code.ts";

/**
 * The one line a person needs when a start fails, with what to do. Undefined: the error is not a known one, and its
 * stack is worth showing.
 */
export function explainStart(
  error: unknown,
  config: Pick<Config, "host" | "port" | "operatorPort" | "stateDir">,
  portName: "SVC_PORT" | "SVC_OPERATOR_PORT",
): string | undefined {
  const { stateDir } = config;
  const port = portName === "SVC_PORT" ? config.port : config.operatorPort;
  if (!(error instanceof Error)) return undefined;
  const code = errorCode(error);
  const path = "path" in error && typeof error.path === "string" ? error.path : undefined;
  if (code === "EADDRINUSE") {
    return `port ${port} is taken; stop what listens there or set ${portName} to another port`;
  }
  if (code === "EACCES" && "syscall" in error && error.syscall === "listen") {
    return `port ${port} needs privileges; set ${portName} to a port above 1023`;
  }
  if (code === "EADDRNOTAVAIL") return `SVC_HOST=${config.host} is not an address of this machine`;
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
    const next = "set SVC_STATE_DIR to a directory you own";
    // As after one start as root.
    const back = code === "EROFS" ? "" : `, or make this one yours: sudo chown -R "$USER" '${stateDir}'`;
    return `no permission to write ${path ?? stateDir}; ${next}${back}`;
  }
  if (code === "ENOSPC") return `no space left for ${path ?? stateDir}`;
  if (error.name === "LockHeld") {
    const pid = "pid" in error ? ` (process ${String(error.pid)})` : "";
    return `another operator${pid} runs with the state directory ${stateDir}; stop it, or set SVC_STATE_DIR to another directory`;
  }
  if (error.name === "BadImagesFile" && "next" in error) return `${error.message}; ${String(error.next)}`;
  if (["SettingsError", "ApiError", "RuntimeUnavailable"].includes(error.name)) return error.message;
  return undefined;
}
