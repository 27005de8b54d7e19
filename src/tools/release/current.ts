import { randomUUID } from "node:crypto";
import { readlink, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { releaseVersionSchema } from "../../api/release.ts";
import { syncDirectory } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { isWithin } from "../../lib/within.ts";
import type { Layout } from "../install/layout.ts";

/** The places of releases; see `layoutOf`. */
export type ReleasePlaces = Pick<Layout, "prefix" | "current">;

/** The number of releases that stay: the current one and the two before it. */
export const keptReleases = 3;

/** The version that `current` leads to; undefined where nothing is installed. */
export async function currentVersion({ current }: ReleasePlaces): Promise<string | undefined> {
  try {
    return basename(await readlink(current));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Has `current` lead to the release. A process sees the old release or the new one at any time, also after a power cut.
 */
export async function swapCurrent({ prefix, current }: ReleasePlaces, version: string): Promise<void> {
  const temporary = join(prefix, `.current.${randomUUID()}.tmp`);
  await symlink(version, temporary);
  try {
    await rename(temporary, current);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncDirectory(prefix);
}

/** The versions of the releases that are there, sorted by name; none where the prefix is missing. A package has other names. */
export async function installedVersions({ prefix }: Pick<ReleasePlaces, "prefix">): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of await namesIn(prefix)) {
    if (!releaseVersionSchema.safeParse(name).success) continue;
    if (await stat(join(prefix, name, "release.json")).catch(() => undefined)) found.push(name);
  }
  return found.toSorted();
}

export interface PruneOptions {
  /** Versions that stay: the current one and those before it. */
  readonly keep: readonly string[];
  /** Absent: `/proc`. */
  readonly procDir?: string;
}

/**
 * Removes releases that are not to be kept and from which no process runs, and returns their versions. A release that
 * this process may not remove stays.
 */
export async function pruneReleases(
  places: ReleasePlaces,
  { keep, procDir }: PruneOptions,
): Promise<readonly string[]> {
  const used = await versionsInUse(places, procDir);
  const removed: string[] = [];
  for (const version of await installedVersions(places)) {
    if (keep.includes(version) || used.has(version)) continue;
    // Renamed first: a release is there whole or not at all.
    const aside = join(places.prefix, `.removed.${version}.${randomUUID()}.tmp`);
    await rename(join(places.prefix, version), aside);
    await rm(aside, { recursive: true, force: true });
    removed.push(version);
  }
  return removed;
}

/**
 * The versions from which a process of this machine runs, by the program and the arguments of each process that this
 * user may read.
 */
export async function versionsInUse(
  { prefix }: Pick<ReleasePlaces, "prefix">,
  procDir = "/proc",
): Promise<ReadonlySet<string>> {
  const used = new Set<string>();
  for (const pid of await namesIn(procDir)) {
    if (!/^\d+$/.test(pid)) continue;
    const program = await readlink(join(procDir, pid, "exe")).catch(() => "");
    const args = await readFile(join(procDir, pid, "cmdline"), "utf8").catch(() => "");
    for (const word of [program, ...args.split("\0")]) {
      if (!isWithin(word, prefix)) continue;
      const version = word.slice(prefix.length + 1).split("/")[0];
      if (version !== undefined && version !== "") used.add(version);
    }
  }
  return used;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}
