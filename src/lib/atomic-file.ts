import { randomUUID } from "node:crypto";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { mkdir, open, readdir, realpath, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { isNoSpace, namingFile, overwroteInPlace } from "./disk-space.ts";
import { errorCode } from "./error-code.ts";

export interface AtomicWriteOptions {
  /** True: the file survives a power cut once the promise resolves. False: only a crash of this process. */
  readonly fsync: boolean;
  readonly mode?: number;
  /** The new file gets the mode of this file and, where this process may change owners, its owner. */
  readonly like?: { readonly mode: number; readonly uid: number; readonly gid: number };
  /** Called when the whole content is in the temporary file: the file is not replaced where this throws. */
  readonly beforeReplace?: () => Promise<void>;
}

/**
 * Replaces a file whole: readers see the old content or the new one, never a part. The directory must exist. Rejects
 * with the file system's error, which has a `path` also where the disk is full, and leaves no temporary file.
 */
export async function writeFileAtomic(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions,
): Promise<void> {
  const dir = dirname(path);
  const temporary = temporaryFor(path);
  try {
    // Closed until it is like that file, which may hold a secret.
    const file = await open(temporary, "wx", options.like === undefined ? (options.mode ?? 0o644) : 0o600);
    try {
      await file.writeFile(content);
      if (options.like !== undefined) await resemble(file, options.like);
      if (options.fsync) await file.sync();
    } finally {
      await file.close();
    }
    await options.beforeReplace?.();
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw namingFile(error, path);
  }
  if (options.fsync) await syncDirectory(dir);
}

/** The same in a directory that was made before; it is made again where somebody has deleted it since. */
export async function writeInKeptDirectory(
  path: string,
  content: string | Uint8Array,
  options: AtomicWriteOptions,
): Promise<void> {
  try {
    await writeFileAtomic(path, content, options);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
    await mkdir(dirname(path), { recursive: true });
    await writeFileAtomic(path, content, options);
  }
}

/**
 * Replaces the content of a file that is there, to survive a power cut: a link stays a link, and the file keeps its mode
 * and owner.
 */
export async function rewriteFile(path: string, content: string): Promise<void> {
  const file = await realpath(path);
  await writeFileAtomic(file, content, { fsync: true, like: await stat(file) });
}

/**
 * Like `writeFileAtomic` without fsync, and synchronous: for small JSON files on a local disk, where four tasks on the
 * thread pool take ten times as long as the write, and the process may block for it. On a full disk the file is written
 * in place where that is possible. By default the owner and the group may read the file.
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

/** A temporary name beside the file; `removeLeftovers` recognises it if this process ends before the rename. */
export function temporaryFor(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomUUID()}.tmp`);
}

async function resemble(file: FileHandle, { mode, uid, gid }: NonNullable<AtomicWriteOptions["like"]>): Promise<void> {
  const own = await file.stat();
  // Only root may change the owner: for other users the file stays theirs.
  if (own.uid !== uid || own.gid !== gid) await file.chown(uid, gid).catch(() => undefined);
  await file.chmod(mode & 0o777);
}

/** Makes a file written without fsync survive a power cut, under its name. */
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

/**
 * Removes temporary files of crashed writers that are older than a minute. `isShared`: other programs write there, too,
 * and only names as of `temporaryFor` are Berth's.
 */
export async function removeLeftovers(dir: string, { isShared = false } = {}): Promise<void> {
  const pattern = isShared ? /^\..+\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp$/ : /^\..*\.tmp$/;
  for (const name of await readdir(dir)) {
    if (!pattern.test(name)) continue;
    const path = join(dir, name);
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() === true && Date.now() - status.mtimeMs > 60_000) await rm(path, { force: true });
  }
}
