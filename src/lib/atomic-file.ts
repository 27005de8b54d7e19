import { randomUUID } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { open, readdir, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isNoSpace, overwroteInPlace } from "./disk-space.ts";

export interface AtomicWriteOptions {
  /** True: survives a power cut once resolved. False: only a crash of this process. */
  readonly fsync: boolean;
  readonly mode?: number;
  /** A file whose mode and, where this process may give files away, owner the new one gets. */
  readonly like?: { readonly mode: number; readonly uid: number; readonly gid: number };
}

/**
 * Replaces a file whole: readers see the old content or the new one, never a part. The directory must exist.
 * Rejects as the file system does, and leaves nothing behind.
 */
export async function writeFileAtomic(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions,
): Promise<void> {
  const dir = dirname(path);
  const temporary = temporaryFor(path);
  try {
    const file = await open(temporary, "wx", options.mode ?? 0o644);
    try {
      await file.writeFile(content);
      if (options.like !== undefined) await resemble(file, options.like);
      if (options.fsync) await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  if (options.fsync) await syncDirectory(dir);
}

/**
 * As `writeFileAtomic` without fsync, and done when it returns: for small JSON files on a local disk, where four turns
 * through the pool of threads take ten times what the writing does, and the whole process may wait for it. On a full disk
 * the file is written in place where it can be. Unless told otherwise the file is for its owner and his group.
 */
export function writeJsonNow(path: string, content: string, mode = 0o640): void {
  const temporary = temporaryFor(path);
  try {
    writeFileSync(temporary, content, { flag: "wx", mode });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    if (!isNoSpace(error) || !overwroteInPlace(path, content)) throw error;
  }
}

/** A name beside the file for what becomes it; `removeLeftovers` knows it where this process ends before. */
export function temporaryFor(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomUUID()}.tmp`);
}

async function resemble(file: FileHandle, { mode, uid, gid }: NonNullable<AtomicWriteOptions["like"]>): Promise<void> {
  const own = await file.stat();
  // Only root may: for others the file stays theirs.
  if (own.uid !== uid || own.gid !== gid) await file.chown(uid, gid).catch(() => undefined);
  await file.chmod(mode & 0o777);
}

/** Makes a file that was written without it survive a power cut, under its name. */
export async function syncFile(path: string): Promise<void> {
  await syncDirectory(path);
  await syncDirectory(dirname(path));
}

/** Makes renames and removals in a directory survive a power cut. */
export async function syncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Removes what writers that crashed left behind: temporary files older than a minute. */
export async function removeLeftovers(dir: string): Promise<void> {
  for (const name of await readdir(dir)) {
    if (!name.startsWith(".") || !name.endsWith(".tmp")) continue;
    const path = join(dir, name);
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() === true && Date.now() - status.mtimeMs > 60_000) await rm(path, { force: true });
  }
}
