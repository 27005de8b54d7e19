import { constants } from "node:fs";
import { access, lstat, readdir, readlink, stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Stats } from "node:fs";
import { errorCode } from "./error-code.ts";
import { isPrivateGroup, userName } from "./accounts.ts";

/** Why a path is not trusted, and the remedy. */
export interface Distrust {
  readonly reason: string;
  readonly next: string;
}

export interface TrustOptions {
  /** The user of the process; absent: the effective user of this one. */
  readonly uid?: number;
  /** How many levels below the directory are checked too. */
  readonly depth?: number;
  /** Which entries are checked, by their path below the directory; absent: every directory, and no file. */
  readonly entries?: RegExp;
}

const linksMax = 40;

/**
 * A volume of the Pod that this process is in: the kubelet makes it open to all, and no other program sees it there. Only
 * the kubelet mounts into a Pod, and it writes that variable into every container.
 */
async function isVolume(path: string, { dev, uid }: Stats): Promise<boolean> {
  return process.env["KUBERNETES_SERVICE_HOST"] !== undefined && uid === 0 && (await stat(dirname(path))).dev !== dev;
}

/**
 * Why another user than this process's user and root could change the target of the path; undefined where nobody can.
 * Checks every directory from the root on and every link: a user who may rename one of them decides the target. A part
 * that cannot be read is not judged: using it fails by itself.
 */
export async function distrust(path: string, options: TrustOptions = {}): Promise<Distrust | undefined> {
  const uid = options.uid ?? process.geteuid?.();
  // Windows has no such owners.
  if (uid === undefined) return undefined;
  try {
    return (
      (await alongPath(resolve(path), uid)) ??
      (await below(resolve(path), "", uid, options.depth ?? 0, options.entries))
    );
  } catch (error) {
    if (errorCode(error) === undefined) throw error;
    return undefined;
  }
}

async function alongPath(path: string, uid: number): Promise<Distrust | undefined> {
  let current = "/";
  let above: Stats = await lstat(current);
  let links = 0;
  const names = path.split("/").filter((name) => name !== "");
  for (;;) {
    const name = names.shift();
    // A directory where everybody may add entries is safe to pass (the sticky bit protects our entries), and not safe
    // as the target.
    const found = await ofDirectory(current, above, uid, name !== undefined);
    if (found !== undefined) return found;
    if (name === undefined) return undefined;
    const next = join(current, name);
    const status = await lstat(next).catch((error: unknown) => {
      if (errorCode(error) === "ENOENT") return undefined;
      throw error;
    });
    if (status === undefined) {
      const isOpen = (above.mode & 0o002) !== 0;
      if (isOpen && (await isVolume(current, above))) return undefined;
      if (!isOpen && ((above.mode & 0o020) === 0 || (await isPrivateGroup(above.gid, uid)))) return undefined;
      return {
        reason: `${next} is not there, and ${isOpen ? "everybody" : "a group"} may make it: ${current} is open to ${isOpen ? "all" : "it"}`,
        next: `make it first (mkdir -m 700 ${next}), or name a place of your own`,
      };
    }
    if (status.isSymbolicLink()) {
      links += 1;
      if (links > linksMax) return undefined;
      if (status.uid !== uid && status.uid !== 0) return await foreign(next, "is a link of", status.uid);
      const target = await readlink(next);
      names.unshift(...target.split("/").filter((part) => part !== ""));
      if (!target.startsWith("/")) continue;
      current = "/";
      above = await lstat(current);
      continue;
    }
    current = next;
    above = status;
  }
}

async function ofDirectory(path: string, status: Stats, uid: number, isPassed: boolean): Promise<Distrust | undefined> {
  if (status.uid !== uid && status.uid !== 0) return await foreign(path, "belongs to", status.uid);
  if (isPassed && (status.mode & constants.S_IFMT) === constants.S_IFDIR && (status.mode & 0o1000) !== 0)
    return undefined;
  return await ofMode(path, status, uid);
}

async function ofMode(path: string, status: Stats, uid: number): Promise<Distrust | undefined> {
  const isOpen = (status.mode & 0o002) !== 0;
  const isOpenToGroup = (status.mode & 0o020) !== 0 && !(await isPrivateGroup(status.gid, uid));
  if (!isOpen && !isOpenToGroup) return undefined;
  // A read-only mount cannot be written, such as a ConfigMap of Kubernetes.
  const isFixed = await access(path, constants.W_OK).then(
    () => false,
    (error: unknown) => errorCode(error) === "EROFS",
  );
  if (isFixed || (await isVolume(path, status))) return undefined;
  const mode = (status.mode & 0o7777).toString(8);
  return {
    reason: `${path} may be written by ${isOpen ? "everybody" : "its group"} (mode ${mode})`,
    next: `chmod go-w ${path}`,
  };
}

async function below(
  root: string,
  directory: string,
  uid: number,
  depth: number,
  wanted: RegExp | undefined,
): Promise<Distrust | undefined> {
  if (depth === 0) return undefined;
  const entries = await readdir(join(root, directory), { withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    const name = join(directory, entry.name);
    if (wanted === undefined ? entry.isFile() : !wanted.test(name)) continue;
    const found =
      (await ofEntry(join(root, name), entry.isSymbolicLink(), uid)) ??
      (entry.isDirectory() ? await below(root, name, uid, depth - 1, wanted) : undefined);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function ofEntry(path: string, isLink: boolean, uid: number): Promise<Distrust | undefined> {
  // A link such as `slots` to a clone elsewhere. A link to a file is as trustworthy as the link's owner.
  if (isLink && (await stat(path).catch(() => undefined))?.isDirectory() === true) return await alongPath(path, uid);
  const status = await lstat(path).catch(() => undefined);
  if (status === undefined) return undefined;
  if (!isLink) return await ofDirectory(path, status, uid, false);
  return status.uid === uid || status.uid === 0 ? undefined : await foreign(path, "is a link of", status.uid);
}

async function foreign(path: string, how: string, uid: number): Promise<Distrust> {
  return {
    reason: `${path} ${how} ${await userName(uid)}, who may change its contents`,
    next: `run this as that user, name a place of your own, or make it yours: chown -h ${await userName(process.geteuid?.() ?? 0, false)} ${path}`,
  };
}
