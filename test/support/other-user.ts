import { spawnSync } from "node:child_process";
import { chmod, chown, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { tempDir } from "./temp-dir.ts";

/** A user with no rights, as a service or a stranger is. */
export const otherUser = 65_534;

/** Why the tests cannot act as another user; undefined where they can. */
export function noOtherUser(): string | undefined {
  if (process.getuid?.() !== 0) return "only root can act as two users";
  const asOther = { uid: otherUser, gid: otherUser, cwd: process.cwd() };
  const canRead = spawnSync(process.execPath, ["--check", "src/main/berth.ts"], asOther).status === 0;
  return canRead ? undefined : `user ${otherUser} may not read this checkout`;
}

/** A directory that every user may pass, with one of the other user's in it. */
export async function twoUsersDir(): Promise<AsyncDisposable & { readonly path: string; readonly theirs: string }> {
  const directory = await tempDir();
  await chmod(directory.path, 0o755);
  const theirs = join(directory.path, "theirs");
  await mkdir(theirs);
  await chown(theirs, otherUser, otherUser);
  return { path: directory.path, theirs, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() };
}
