import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, relative } from "node:path";
import { setAside } from "../../lib/aside.ts";
import { errorMessage } from "../../lib/error-code.ts";

/** The names of Berth's files, in any directory of the state. */
const files = /^instance$|\.(json|yaml|log(\.1)?|lock(\.[^.]+)?)$/;
/** Directories that may be large, and whose files are a person's or another program's. */
const foreign: readonly string[] = ["aside", "backups", "engines", "models"];
/** State files lie at most two directories deep, as in `auth/tokens/`. */
const maxDepth = 2;

/**
 * Moves to `<state>/aside/` each entry that has the name of a file and is a named pipe, a socket, a device or a directory: a
 * pipe would block a program that opens it, and a directory cannot be replaced by a file. Never rejects: `report` gets a
 * line for each, and for one that could not be moved.
 */
export async function clearOddFiles(stateDir: string, report: (line: string) => void): Promise<void> {
  await clearIn(stateDir, 0);

  async function clearIn(directory: string, depth: number): Promise<void> {
    for (const entry of await readdir(directory, { withFileTypes: true }).catch(() => [])) {
      const path = join(directory, entry.name);
      const kind = files.test(entry.name) ? oddKindOf(entry) : undefined;
      if (kind !== undefined) await clear(path, kind);
      else if (entry.isDirectory() && depth < maxDepth && !foreign.includes(entry.name)) await clearIn(path, depth + 1);
    }
  }
  async function clear(path: string, kind: string): Promise<void> {
    try {
      await setAside(stateDir, path, relative(stateDir, path).replaceAll("/", "."));
      report(`${path} is ${kind}, not a file: it was moved to ${join(stateDir, "aside")}`);
    } catch (error) {
      report(`${path} is ${kind}, not a file, and could not be moved away: ${errorMessage(error)}`);
    }
  }
}

/** Undefined for a plain file, and for a link: whoever reads or replaces the file judges a link. */
function oddKindOf(entry: Dirent): string | undefined {
  if (entry.isDirectory()) return "a directory";
  if (entry.isFIFO()) return "a named pipe";
  if (entry.isSocket()) return "a socket";
  return entry.isCharacterDevice() || entry.isBlockDevice() ? "a device" : undefined;
}
