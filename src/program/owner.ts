import { stat } from "node:fs/promises";
import { accountOf, groupsOf, type Account } from "../lib/accounts.ts";

/** The owner of a directory. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Read before any change of user: commands of root use root's directories, also when they act as another user. */
export const isStartedByRoot = process.getuid?.() === 0;

/**
 * The user that root must act as in that directory: its owner may replace any file there by a link, and root would then
 * act on the link's target, any file of the machine. Undefined where this process is not root, or the directory belongs
 * to root or is missing.
 */
export async function ownerToActAs(path: string): Promise<Owner | undefined> {
  if (process.geteuid?.() !== 0) return undefined;
  const status = await stat(path).catch(() => undefined);
  return status === undefined || status.uid === 0 ? undefined : { uid: status.uid, gid: status.gid };
}

/**
 * This process becomes that user, and cannot become root again: it has no access to files or processes of others.
 * Programs that it starts get the user's home.
 */
export async function become(owner: Owner, env: NodeJS.ProcessEnv): Promise<void> {
  const account = accountOf(owner.uid);
  const gid = takeGroups(account, owner);
  process.setgid?.(gid);
  process.setuid?.(owner.uid);
  env["HOME"] = account?.home ?? "/";
  env["USER"] = env["LOGNAME"] = account?.name ?? String(owner.uid);
  for (const name of ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"]) delete env[name];
}

/**
 * This process opens files as that user until it is disposed. For files only: its real user stays root, so nothing may
 * be started or signalled meanwhile.
 */
export async function actAs(owner: Owner): Promise<Disposable> {
  const groups = process.getgroups?.() ?? [];
  const ownGid = process.getegid?.() ?? 0;
  const gid = takeGroups(accountOf(owner.uid), owner);
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
 * A user with a name gets its groups, such as that of the container engine's socket; any other user only the
 * directory's. Returns the primary group.
 */
function takeGroups(account: Account | undefined, owner: Owner): number {
  process.setgroups?.(account === undefined ? [owner.gid] : groupsOf(account));
  return account?.gid ?? owner.gid;
}
