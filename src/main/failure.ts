/**
 * The one line a person needs when a start fails, with what to do. Undefined: the error is not a known one, and its
 * stack is worth showing.
 */
export function explainStart(
  error: unknown,
  settings: { portName: string; port: number; stateDir: string },
): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  const path = "path" in error && typeof error.path === "string" ? error.path : undefined;
  if (code === "EADDRINUSE") {
    return `port ${settings.port} is taken; stop what listens there or set ${settings.portName} to another port`;
  }
  if (code === "EACCES" && "syscall" in error && error.syscall === "listen") {
    return `port ${settings.port} needs privileges; set ${settings.portName} to a port above 1023`;
  }
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
    return `no permission to write ${path ?? settings.stateDir}; set SVC_STATE_DIR to a directory you own`;
  }
  if (code === "ENOSPC") return `no space left for ${path ?? settings.stateDir}`;
  if (error.name === "LockHeld") {
    const pid = "pid" in error ? ` (process ${String(error.pid)})` : "";
    return `another operator${pid} runs with the state directory ${settings.stateDir}; stop it, or set SVC_STATE_DIR to another directory`;
  }
  if (error.name === "SettingsError" || error.name === "ApiError") return error.message;
  return undefined;
}
