import { chmod, chown, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";

/**
 * Makes `<state>/auth/<names>`, closed to everybody but the owner of the state directory: a looser mode, by an old
 * umask or a copy, would show labels and hashes.
 */
export async function privateDirectory(stateDir: string, ...names: readonly string[]): Promise<string> {
  await mkdir(stateDir, { recursive: true });
  let path = stateDir;
  for (const name of ["auth", ...names]) {
    path = join(path, name);
    await mkdir(path, { recursive: true, mode: 0o700 });
    await chmod(path, 0o700);
    await giveToOwner(stateDir, path);
  }
  return path;
}

/** What root writes must be readable by the service, which may be another user. */
export async function giveToOwner(stateDir: string, path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(stateDir);
  await chown(path, uid, gid);
}
