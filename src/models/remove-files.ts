import { lstat, realpath, unlink } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import type { KeptFile } from "../api/model-task.ts";
import type { ModelRecord } from "../api/model.ts";
import { errorCode, errorMessage } from "../lib/error-code.ts";
import { storeDirectory } from "./fetch/blob-store.ts";

export interface FileRemoval {
  readonly modelsDir: string;
  /** The model that is removed. */
  readonly ref: string;
  /** Absolute paths of one model's files. */
  readonly files: readonly string[];
  /** The records of the registry. */
  readonly records: readonly ModelRecord[];
  /** Deletes nothing, and reports the files that would be deleted. */
  readonly isDryRun: boolean;
}

/**
 * Deletes files of the models directory that no other model has. A link is deleted, and its target stays: Berth deletes
 * nothing outside the models directory. Never throws: a file that cannot be deleted is among those kept.
 */
export async function removeFiles({ modelsDir, ref, files, records, isDryRun }: FileRemoval): Promise<{
  readonly freedBytes: number;
  readonly kept: readonly KeptFile[];
}> {
  const kept: KeptFile[] = [];
  let freedBytes = 0;
  const users = await usersOf(ref, files, records);
  for (const path of new Set(files)) {
    const user = users.get(await placeOf(path));
    const reason = user === undefined ? await refusalOf(path, modelsDir) : `the model ${user} has it, too`;
    if (reason !== undefined) {
      kept.push({ path, reason });
      continue;
    }
    try {
      const found = await lstat(path);
      if (!isDryRun) await unlink(path);
      freedBytes += found.nlink > 1 ? 0 : found.size;
    } catch (error) {
      if (errorCode(error) !== "ENOENT") kept.push({ path, reason: errorMessage(error) });
    }
  }
  return { freedBytes, kept };
}

/** The other models by the places of their files, and of what these are links to. */
async function usersOf(
  ref: string,
  files: readonly string[],
  records: readonly ModelRecord[],
): Promise<ReadonlyMap<string, string>> {
  const own = new Set(files);
  const users = new Map<string, string>();
  for (const { ref: user, origin, files: used, projectorPath } of records) {
    // A removed model that is registered as found by its remaining files does not count.
    if (user === ref || (origin !== "manifest" && used.every((file) => own.has(file)))) continue;
    for (const file of projectorPath === undefined ? used : [...used, projectorPath])
      for (const place of [await placeOf(file), await realpath(file).catch(() => file)])
        if (!users.has(place)) users.set(place, user);
  }
  return users;
}

/** Where a file lies, without a link on the way to it. */
async function placeOf(path: string): Promise<string> {
  return join(await realpath(dirname(path)).catch(() => dirname(path)), basename(path));
}

async function refusalOf(path: string, modelsDir: string): Promise<string | undefined> {
  try {
    const [root, directory] = [await realpath(modelsDir), await realpath(dirname(path))];
    const isInside = directory === root || directory.startsWith(`${root}${sep}`);
    if (!isInside) return `it lies outside the models directory ${modelsDir}: delete it by hand`;
    if (`${directory}${sep}`.startsWith(`${root}${sep}${storeDirectory}${sep}`))
      return "it belongs to the store of fetched files";
    const found = await lstat(path);
    return found.isFile() || found.isSymbolicLink() ? undefined : "it is no file: delete it by hand";
  } catch (error) {
    return errorCode(error) === "ENOENT" ? undefined : errorMessage(error);
  }
}
