import type { Stats } from "node:fs";
import { lstat, readdir, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { setAside } from "../../lib/aside.ts";
import { errorMessage } from "../../lib/error-code.ts";

/** Directories of the state; a link to a directory elsewhere may replace one. */
const directories = [
  "auth",
  "auth/confirmed",
  "auth/tokens",
  "auth/used",
  "demand",
  "discovered",
  "gateways",
  "hardware",
  "images",
  "logs",
  "processes",
  "requests",
  "requests/removals",
  "slots",
  "spool",
  "upstreams",
] as const;
/** The directories that hold files alone, beside directories that are in the list themselves. */
const flat = [
  "auth",
  "auth/confirmed",
  "auth/tokens",
  "demand",
  "gateways",
  "hardware",
  "logs",
  "processes",
  "requests",
  "requests/removals",
  "slots",
  "upstreams",
];
const files = /^(instance|operator\.json|run\.json|registry\.json|engines\.lock\.yaml|operator\.lock(\..*)?)$/;

/**
 * Moves to `<state>/aside/` a wrong kind of file at the path of a state file or directory: a named pipe would block its
 * reader for ever, a directory cannot be replaced by a file, and a link leads elsewhere. Never rejects: `tell` gets a
 * line for each, and for one that could not be moved.
 */
export async function clearOddFiles(stateDir: string, report: (line: string) => void): Promise<void> {
  const clear = async (name: string, kind: string): Promise<void> => {
    const path = join(stateDir, name);
    try {
      await setAside(stateDir, path, name.replaceAll("/", "."));
      report(`${path} is ${kind}: it was moved to ${join(stateDir, "aside")}`);
    } catch (error) {
      report(`${path} is ${kind}, and could not be moved away: ${errorMessage(error)}`);
    }
  };
  const aside = join(stateDir, "aside");
  if (await isOtherThanDirectory(aside)) await rename(aside, `${aside}.${Date.now()}`).catch(() => undefined);
  for (const name of directories)
    if (await isOtherThanDirectory(join(stateDir, name))) await clear(name, "no directory");
  for (const name of await namesIn(stateDir)) {
    if (!files.test(name)) continue;
    const kind = kindOf(await lstat(join(stateDir, name)).catch(() => undefined));
    // The pins of images may be a link into a person's repository.
    const isPins = name === "engines.lock.yaml" && (await stat(join(stateDir, name)).catch(() => undefined))?.isFile();
    if (kind !== undefined && isPins !== true) await clear(name, kind);
  }
  for (const directory of flat) {
    for (const name of await namesIn(join(stateDir, directory))) {
      const path = `${directory}/${name}`;
      if (name.startsWith(".") || directories.some((each) => each === path)) continue;
      const kind = kindOf(await lstat(join(stateDir, path)).catch(() => undefined));
      if (kind !== undefined) await clear(path, kind);
    }
  }
}

async function isOtherThanDirectory(path: string): Promise<boolean> {
  const isThere = (await lstat(path).catch(() => undefined)) !== undefined;
  return isThere && (await stat(path).catch(() => undefined))?.isDirectory() !== true;
}

/** Undefined for a plain file, and for a missing one. */
function kindOf(status: Stats | undefined): string | undefined {
  if (status === undefined || status.isFile()) return undefined;
  if (status.isDirectory()) return "a directory, and no file";
  if (status.isFIFO()) return "a named pipe, and no file";
  return status.isSymbolicLink() ? "a link, and no file" : "no plain file";
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch(() => []);
}
