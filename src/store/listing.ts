import { lstatSync, type Stats } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorCode } from "../lib/error-code.ts";
import { linkDirectories, nearestParent } from "./links.ts";
import { isManifestFile } from "./manifest.ts";
import type { SourceProblem } from "./store.ts";

export interface ListedFile {
  /** Another one whenever the file may be another. */
  readonly stamp: string;
  readonly mtimeMs: number;
  readonly sizeBytes: number;
  /** So young that a second write could carry the same times: worth another look soon. */
  readonly isYoung: boolean;
}

export interface ListedDirectory {
  /** Device, inode and time of birth; undefined when it is not there or could not be read. */
  readonly identity: string | undefined;
  /** False: nothing may be concluded from what is missing. */
  readonly isConclusive: boolean;
}

export interface Listing {
  /** Manifest files by path, in path order. */
  readonly files: ReadonlyMap<string, ListedFile>;
  readonly directories: ReadonlyMap<string, ListedDirectory>;
  /** Every directory whose events tell of a change, links' targets too, by path with its identity. */
  readonly watched: ReadonlyMap<string, string>;
  /** What could not be read. */
  readonly problems: readonly SourceProblem[];
}

export const youngMs = 20;
/** A larger one is not read: parsing it would hold up everything else. */
export const manifestLimitBytes = 1024 ** 2;

/** One look at a configuration directory; follows symbolic links, so a swapped link is another stamp. */
export async function listManifests(configDir: string, names: readonly string[]): Promise<Listing> {
  const files: [string, ListedFile][] = [];
  const directories = new Map<string, ListedDirectory>();
  const problems: SourceProblem[] = [];
  const unreadable = (path: string, error: unknown): void => {
    const message = `${path} cannot be read (${errorCode(error) ?? String(error)})`;
    problems.push({ reason: "SourceUnreadable", message, file: path });
  };
  const unfit = (path: string): void => {
    problems.push({ reason: "NotAFile", message: `${path} is not a plain file and is not read`, file: path });
  };
  const watched = new Map<string, string>();
  const root = await stat(configDir).catch((error: unknown) => unreadable(configDir, error));
  await watchDirectory(root === undefined ? await nearestParent(configDir) : configDir, watched);
  for (const path of [configDir, ...names.map((name) => join(configDir, name))]) {
    for (const directory of await linkDirectories(path)) await watchDirectory(directory, watched);
  }
  for (const name of names) {
    const path = join(configDir, name);
    if (root === undefined) {
      directories.set(path, { identity: undefined, isConclusive: false });
      continue;
    }
    try {
      const identity = identityOf(await stat(path));
      watched.set(path, identity);
      const entries = (await readdir(path, { withFileTypes: true })).filter((entry) => isManifestFile(entry.name));
      const found = await Promise.all(entries.map((entry) => look(join(path, entry.name), unreadable, unfit)));
      const links = entries.filter((entry) => entry.isSymbolicLink());
      await Promise.all(links.map((entry) => watchTarget(join(path, entry.name), watched)));
      for (const entry of found) if (entry !== undefined && entry !== "unreadable") files.push(entry);
      directories.set(path, { identity, isConclusive: !found.includes("unreadable") });
    } catch (error) {
      // A kind without a directory has no files; whether it had some is for the caller to know.
      if (errorCode(error) !== "ENOENT") unreadable(path, error);
      directories.set(path, { identity: undefined, isConclusive: errorCode(error) === "ENOENT" });
    }
  }
  return { files: new Map(files.toSorted(([a], [b]) => (a < b ? -1 : 1))), directories, watched, problems };
}

/**
 * One file as a listing has it; undefined when it is not there or no regular file: only a look at everything tells what
 * to make of that. Blocks: for a file that this machine has just written, which its kernel knows by heart.
 */
export function glanceAt(file: string): ListedFile | undefined {
  try {
    const status = lstatSync(file);
    return status.isFile() ? listed(status) : undefined;
  } catch {
    return undefined;
  }
}

function listed({ size, mtimeMs, ctimeMs, ino, dev }: Stats): ListedFile {
  const isYoung = Math.abs(Date.now() - mtimeMs) < youngMs;
  return { stamp: `${dev}:${ino}:${size}:${mtimeMs}:${ctimeMs}`, mtimeMs, sizeBytes: size, isYoung };
}

async function look(
  file: string,
  unreadable: (path: string, error: unknown) => void,
  unfit: (path: string) => void,
): Promise<[string, ListedFile] | "unreadable" | undefined> {
  try {
    const status = await stat(file);
    // Reading a named pipe would never end.
    if (!status.isFile()) {
      unfit(file);
      return undefined;
    }
    return [file, listed(status)];
  } catch (error) {
    // A link whose target is gone is a file that is gone.
    if (errorCode(error) === "ENOENT") return undefined;
    unreadable(file, error);
    return "unreadable";
  }
}

/** A link's target is edited where it is, and every link on the way may be swapped. */
async function watchTarget(link: string, watched: Map<string, string>): Promise<void> {
  const target = await realpath(link).catch(() => undefined);
  if (target !== undefined) await watchDirectory(dirname(target), watched);
  for (const directory of await linkDirectories(link)) await watchDirectory(directory, watched);
}

async function watchDirectory(path: string, watched: Map<string, string>): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status !== undefined) watched.set(path, identityOf(status));
}

/** A directory that is made anew may get the inode of the one before at once. */
function identityOf({ dev, ino, birthtimeMs }: Stats): string {
  return `${dev}:${ino}:${birthtimeMs}`;
}
