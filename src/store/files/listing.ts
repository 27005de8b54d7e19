import { lstatSync, type Stats } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorCode } from "../../lib/error-code.ts";
import { linkDirectories, nearestParent } from "./links.ts";
import { isManifestFile } from "./manifest.ts";
import type { SourceProblem } from "../store.ts";

export interface ListedFile {
  /** Differs whenever the file may have changed. */
  readonly stamp: string;
  readonly mtimeMs: number;
  readonly sizeBytes: number;
  /** So young that a second write could have the same times: it is read again soon. */
  readonly isYoung: boolean;
}

export interface ListedDirectory {
  /** Device, inode and time of birth; undefined when it is missing or unreadable. */
  readonly identity: string | undefined;
  /** False: missing files prove nothing. */
  readonly isConclusive: boolean;
}

export interface Listing {
  /** Manifest files by path, in path order. */
  readonly files: ReadonlyMap<string, ListedFile>;
  readonly directories: ReadonlyMap<string, ListedDirectory>;
  /** Every directory whose events mean a change, links' targets too, by path with its identity. */
  readonly watched: ReadonlyMap<string, string>;
  /** Directories and files that could not be read. */
  readonly problems: readonly SourceProblem[];
}

export const youngMs = 20;

/** One full read of a configuration directory; follows symbolic links, so a swapped link changes the stamp. */
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
      const found = await Promise.all(entries.map((entry) => entryAt(join(path, entry.name), unreadable, unfit)));
      const links = entries.filter((entry) => entry.isSymbolicLink());
      await Promise.all(links.map((entry) => watchTarget(join(path, entry.name), watched)));
      for (const entry of found) if (entry !== undefined && entry !== "unreadable") files.push(entry);
      directories.set(path, { identity, isConclusive: !found.includes("unreadable") });
    } catch (error) {
      // A kind without a directory has no files; the caller knows whether it had some before.
      if (errorCode(error) !== "ENOENT") unreadable(path, error);
      directories.set(path, { identity: undefined, isConclusive: errorCode(error) === "ENOENT" });
    }
  }
  return { files: new Map(files.toSorted(([a], [b]) => (a < b ? -1 : 1))), directories, watched, problems };
}

/**
 * One file as a listing has it; undefined when it is missing or no regular file: then only a full read can decide.
 * Synchronous: for a file that this machine has just written, whose inode is in the kernel's cache.
 */
export function listFile(file: string): ListedFile | undefined {
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

async function entryAt(
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
    // A link whose target is gone is a missing file.
    if (errorCode(error) === "ENOENT") return undefined;
    unreadable(file, error);
    return "unreadable";
  }
}

/** A link's target is edited in place, and every link on the way may be swapped. */
async function watchTarget(link: string, watched: Map<string, string>): Promise<void> {
  const target = await realpath(link).catch(() => undefined);
  if (target !== undefined) await watchDirectory(dirname(target), watched);
  for (const directory of await linkDirectories(link)) await watchDirectory(directory, watched);
}

async function watchDirectory(path: string, watched: Map<string, string>): Promise<void> {
  const status = await stat(path).catch(() => undefined);
  if (status !== undefined) watched.set(path, identityOf(status));
}

/** A directory that is created again may get the inode of the old one at once. */
function identityOf({ dev, ino, birthtimeMs }: Stats): string {
  return `${dev}:${ino}:${birthtimeMs}`;
}
