import { open } from "node:fs/promises";
import type { Exit } from "../../api/workload.ts";
import { causeLine } from "../exit-cause.ts";

/** How a child ended, as its parent learns it; `undefined` for a process with another parent. */
export type Ended = { readonly code: number | null; readonly signal: NodeJS.Signals | null } | undefined;

/** The stack trace of an engine that aborts follows the cause. */
const hintBytes = 32_768;
const hintLength = 300;

/** How a process ended; `hint` is its last output, `unseen` the message for an unobserved end. */
export function exitOf(ended: Ended, hint: string, unseen: string): Exit {
  const at = new Date().toISOString();
  const said = hint === "" ? "" : `: ${hint}`;
  if (ended === undefined) return { reason: "Unknown", message: `${unseen}${said}`, at };
  const { code, signal } = ended;
  if (signal !== null) return { reason: "Signalled", signal, message: `ended by ${signal}${said}`, at };
  const number = code ?? 0;
  return { reason: "Exited", code: number, message: `exited with code ${number}${said}`, at };
}

/**
 * The cause of an engine's end in its output since `offset` of its log, shown beside its exit code; "" without output.
 * `textOf` gives the engine's part of a line of the log, "" for another writer's line. `isKilled`: it may not
 * have logged its end.
 */
export async function lastLine(
  path: string,
  offset: number,
  textOf: (line: string) => string = (line) => line,
  isKilled = false,
): Promise<string> {
  const file = await open(path, "r").catch(() => undefined);
  if (file === undefined) return "";
  try {
    const { size } = await file.stat();
    // Smaller than at the start: the log was cut meanwhile, and all of it is newer.
    const start = Math.max(offset > size ? 0 : offset, size - hintBytes);
    const buffer = Buffer.alloc(size - start);
    await file.read(buffer, 0, buffer.length, start);
    const lines = buffer
      .toString()
      .split(/[\r\n]/)
      .map(textOf);
    return causeLine(lines, isKilled).slice(0, hintLength);
  } catch {
    // The hint is optional; the exit itself must be reported.
    return "";
  } finally {
    await file.close();
  }
}
