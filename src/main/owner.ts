import { stat } from "node:fs/promises";
import { accountOf, groupsOf, type Account } from "../lib/accounts.ts";

/** Whom a directory belongs to. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Before anything changed it: commands of root look where root's directories are, whoever they act as. */
export const isStartedByRoot = process.getuid?.() === 0;

/**
 * The user that root must act as in that directory: its owner may put a link in the place of any file there, and what
 * root then does to the link's target is done to any file of the machine. Undefined where this process is not root, or
 * the directory is root's or not there.
 */
export async function ownerToActAs(path: string): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  const status = await stat(path).catch(() => undefined);
  return status === undefined || status.uid === 0 ? undefined : { uid: status.uid, gid: status.gid };
}

/**
 * This process is that user from now on, and can become root no more: neither a file nor a process of anybody else is
 * in its reach. Programs that it starts are given the user's home.
 */
export async function become(owner: Owner, env: NodeJS.ProcessEnv): Promise<void> {
  const account = await accountOf(owner.uid);
  const gid = await takeGroups(account, owner);
  process.setgid?.(gid);
  process.setuid?.(owner.uid);
  env["HOME"] = account?.home ?? "/";
  env["USER"] = env["LOGNAME"] = account?.name ?? String(owner.uid);
  for (const name of ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]) delete env[name];
}

/**
 * This process opens files as that user until it is disposed. For files alone: its real user stays root, so nothing may
 * be started or signalled meanwhile.
 */
export async function actAs(owner: Owner): Promise<Disposable> {
  const groups = process.getgroups?.() ?? [];
  const ownGid = process.getegid?.() ?? 0;
  const gid = await takeGroups(await accountOf(owner.uid), owner);
  process.setegid?.(gid);
  process.seteuid?.(owner.uid);
  return {
    [Symbol.dispose]() {
      process.seteuid?.(0);
      process.setegid?.(ownGid);
      process.setgroups?.(groups);
    },
  };
}

/**
 * A user with a name has groups, such as that of the container engine's socket; another has the directory's alone.
 * Resolves with the primary one.
 */
async function takeGroups(account: Account | undefined, owner: Owner): Promise<number> {
  process.setgroups?.(account === undefined ? [owner.gid] : await groupsOf(account));
  return account?.gid ?? owner.gid;
}
