import type { Stats } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { dirname } from "node:path";
import { errorCode } from "../../lib/error-code.ts";

/** The status of a file, a directory or a link itself; undefined for a missing one. */
export async function statusOf(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** The target of a link; undefined where there is none. */
export async function targetOf(path: string): Promise<string | undefined> {
  return (await statusOf(path))?.isSymbolicLink() === true ? await readlink(path) : undefined;
}

/** Directories above a path that are missing, the topmost first. */
export async function missingAbove(path: string): Promise<readonly string[]> {
  const above = dirname(path);
  if (above === path || (await statusOf(above)) !== undefined) return [];
  return [...(await missingAbove(above)), above];
}

/** The path itself, or the nearest directory above it that is there. */
export async function nearest(path: string): Promise<string> {
  return (await statusOf(path)) === undefined && path !== "/" ? await nearest(dirname(path)) : path;
}
