import { chmod, chown, mkdir, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";

/** The user that writes into the directory of an engine. */
export interface FileOwner {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Makes `<state>/contexts/SLOT/PROCESS`, which that user alone may read and write; undefined: the user of this process.
 * Another user must pass through the directories above, so all may, but cannot list them. Rejects where the user cannot
 * reach it: an engine that cannot would not start.
 */
export async function openToUser(directory: string, owner: FileOwner | undefined): Promise<void> {
  await make(directory, owner);
  // Also those of other replicas, which may have been containers.
  for (const path of await directoriesIn(dirname(directory))) await chmod(path, 0o700);
  await chmod(dirname(directory), owner === undefined ? 0o700 : 0o711);
  if (owner === undefined) return;
  await chown(directory, owner.uid, owner.gid);
  await refuseClosed(dirname(directory), owner);
}

/**
 * Makes the same directory for an engine in a container, whose user may be any user of this machine: by its image, by a
 * user namespace. All may read and write it, and nobody else can pass through the directory above; a mount leads past.
 * `owner`: of engines that are no containers.
 */
export async function openToContainer(directory: string, owner: FileOwner | undefined): Promise<void> {
  await make(directory, owner);
  await chmod(dirname(directory), 0o700);
  const { uid } = await stat(directory);
  const [own, group] = [process.geteuid?.() ?? uid, process.getegid?.() ?? -1];
  if (uid !== own) await chown(directory, own, group);
  await chmod(directory, 0o777);
}

async function make(directory: string, owner: FileOwner | undefined): Promise<void> {
  const slot = dirname(directory);
  const above = owner === undefined ? 0o700 : 0o711;
  await mkdir(dirname(slot), { recursive: true, mode: above });
  await chmod(dirname(slot), above);
  await mkdir(slot, { recursive: true, mode: 0o700 });
  await mkdir(directory, { recursive: true, mode: 0o700 });
}

async function directoriesIn(directory: string): Promise<readonly string[]> {
  const found = await readdir(directory, { withFileTypes: true });
  return found.filter((entry) => entry.isDirectory()).map(({ name }) => join(directory, name));
}

async function refuseClosed(directory: string, { uid, gid }: FileOwner): Promise<void> {
  for (let path = directory; ; path = dirname(path)) {
    const { mode, uid: owner, gid: group } = await stat(path);
    const bit = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001;
    if (uid !== 0 && (mode & bit) === 0) throw new Error(`${path} is closed to the user of engines (uid ${uid})`);
    if (path === dirname(path)) return;
  }
}
