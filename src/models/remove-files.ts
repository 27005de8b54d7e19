import { lstat, realpath, unlink } from "node:fs/promises";
import { dirname, sep } from "node:path";
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
  for (const path of new Set(files)) {
    const user = userOf(path, ref, files, records);
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

/** The other model with this file. A removed model that is registered as found by its remaining files does not count. */
function userOf(
  path: string,
  ref: string,
  files: readonly string[],
  records: readonly ModelRecord[],
): string | undefined {
  const own = new Set(files);
  return records.find(
    (record) =>
      record.ref !== ref &&
      (record.files.includes(path) || record.projectorPath === path) &&
      (record.origin === "manifest" || record.files.some((file) => !own.has(file))),
  )?.ref;
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
