import { existsSync } from "node:fs";
import type { Workload } from "../api/workload.ts";
import { errorCode, errorMessage, isShortage } from "../lib/error-code.ts";

/** No engine was started, and none will be until a person changes the workload. */
export class BadWorkload extends Error {
  override readonly name = "BadWorkload";
}

/** No engine was started: its runtime cannot give it its place for contexts, without which it can start. */
export class NoContextPlace extends Error {
  override readonly name = "NoContextPlace";
}

/** Not the engine's fault, and temporary. */
export class LogUnavailable extends Error {
  override readonly name = "LogUnavailable";
}

/**
 * Why the program can never be started without a change; undefined when the machine only lacks a resource for now
 * (memory, process slots) and another attempt may succeed.
 */
export function startFailure(error: unknown, workload: Workload): string | undefined {
  if (error instanceof LogUnavailable || isShortage(error)) return undefined;
  if (error instanceof BadWorkload && isShortage(error.cause)) return undefined;
  if (error instanceof BadWorkload) return error.message;
  const [program = ""] = workload.command;
  const { workingDir } = workload;
  switch (errorCode(error) ?? "") {
    case "ENOENT":
    case "ENOTDIR":
      if (workingDir !== undefined && !existsSync(workingDir))
        return `its working directory ${workingDir} does not exist`;
      if (!program.includes("/")) return `${program} was not found on PATH`;
      return existsSync(program)
        ? `${program} cannot run: the interpreter or loader it names was not found`
        : `${program} was not found`;
    case "EACCES":
    case "EPERM":
      return `${program} may not be executed${workingDir === undefined ? "" : `, or its working directory ${workingDir} not be entered`}`;
    case "ENOEXEC":
      return `${program} is not a program for this machine`;
    case "E2BIG":
      return `${program} cannot be started: an argument or a variable is larger than 128 KiB, or all together are too large`;
    // The program's file is being written at this moment: it is being replaced.
    case "ETXTBSY":
      return undefined;
    default:
      return `${program} cannot be started: ${errorMessage(error)}`;
  }
}
