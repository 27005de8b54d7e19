import { constants } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";

/**
 * Makes `<state>/auth/<names>`, closed to everybody but its owner: a looser mode, by an old umask or a copy, would show
 * labels and hashes. Rejects with ELOOP or ENOTDIR for a link in its place: its target is not ours to close. Commands
 * of root have become the owner of the state directory before (`src/program/owner.ts`).
 */
export async function privateDirectory(stateDir: string, ...names: readonly string[]): Promise<string> {
  await mkdir(stateDir, { recursive: true });
  let path = stateDir;
  for (const name of ["auth", ...names]) {
    path = join(path, name);
    await mkdir(path, { recursive: true, mode: 0o700 });
    await using directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    await directory.chmod(0o700);
  }
  return path;
}
