import {
  accessSync,
  constants,
  lstatSync,
  readdirSync,
  readlinkSync,
  statSync,
  type Dirent,
  type Stats,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
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
const judgedGroups = new Map<string, { readonly isPrivate: boolean; readonly atMs: number }>();

/**
 * A volume of the Pod that this process is in: the kubelet makes it open to all, and no other program sees it there. Only
 * the kubelet mounts into a Pod, and it writes that variable into every container.
 */
function isVolume(path: string, { dev, uid }: Stats): boolean {
  return process.env["KUBERNETES_SERVICE_HOST"] !== undefined && uid === 0 && statSync(dirname(path)).dev !== dev;
}

/**
 * Why another user than this process's user and root could change the target of the path; undefined where nobody can.
 * Checks every directory from the root on and every link: a user who may rename one of them decides the target. A part
 * that cannot be read is not judged: using it fails by itself.
 */
export function distrust(path: string, options: TrustOptions = {}): Distrust | undefined {
  const uid = options.uid ?? process.geteuid?.();
  // Windows has no such owners.
  if (uid === undefined) return undefined;
  try {
    return alongPath(resolve(path), uid) ?? below(resolve(path), "", uid, options.depth ?? 0, options.entries);
  } catch (error) {
    if (errorCode(error) === undefined) throw error;
    return undefined;
  }
}

function alongPath(path: string, uid: number): Distrust | undefined {
  let current = "/";
  let above: Stats = lstatSync(current);
  let links = 0;
  const names = path.split("/").filter((name) => name !== "");
  for (;;) {
    const name = names.shift();
    // A directory where everybody may add entries is safe to pass (the sticky bit protects our entries), and not safe
    // as the target.
    const found = ofDirectory(current, above, uid, name !== undefined);
    if (found !== undefined) return found;
    if (name === undefined) return undefined;
    const next = join(current, name);
    const status = lstatSync(next, { throwIfNoEntry: false });
    if (status === undefined) {
      const isOpen = (above.mode & 0o002) !== 0;
      if (isOpen && isVolume(current, above)) return undefined;
      if (!isOpen && ((above.mode & 0o020) === 0 || isPrivate(above.gid, uid))) return undefined;
      return {
        reason: `${next} is not there, and ${isOpen ? "everybody" : "a group"} may make it: ${current} is open to ${isOpen ? "all" : "it"}`,
        next: `make it first (mkdir -m 700 ${next}), or name a place of your own`,
      };
    }
    if (status.isSymbolicLink()) {
      links += 1;
      if (links > linksMax) return undefined;
      if (status.uid !== uid && status.uid !== 0) return foreign(next, "is a link of", status.uid);
      const target = readlinkSync(next);
      names.unshift(...target.split("/").filter((part) => part !== ""));
      if (!target.startsWith("/")) continue;
      current = "/";
      above = lstatSync(current);
      continue;
    }
    current = next;
    above = status;
  }
}

function ofDirectory(path: string, status: Stats, uid: number, isPassed: boolean): Distrust | undefined {
  if (status.uid !== uid && status.uid !== 0) return foreign(path, "belongs to", status.uid);
  if (isPassed && (status.mode & constants.S_IFMT) === constants.S_IFDIR && (status.mode & 0o1000) !== 0)
    return undefined;
  return ofMode(path, status, uid);
}

function ofMode(path: string, status: Stats, uid: number): Distrust | undefined {
  const isOpen = (status.mode & 0o002) !== 0;
  const isOpenToGroup = (status.mode & 0o020) !== 0 && !isPrivate(status.gid, uid);
  if (!isOpen && !isOpenToGroup) return undefined;
  // A read-only mount cannot be written, such as a ConfigMap of Kubernetes.
  if (isFixed(path) || isVolume(path, status)) return undefined;
  const mode = (status.mode & 0o7777).toString(8);
  return {
    reason: `${path} may be written by ${isOpen ? "everybody" : "its group"} (mode ${mode})`,
    next: `chmod go-w ${path}`,
  };
}

function below(
  root: string,
  directory: string,
  uid: number,
  depth: number,
  wanted: RegExp | undefined,
): Distrust | undefined {
  if (depth === 0) return undefined;
  for (const entry of entriesOf(join(root, directory))) {
    const name = join(directory, entry.name);
    if (wanted === undefined ? entry.isFile() : !wanted.test(name)) continue;
    const found =
      ofEntry(join(root, name), entry.isSymbolicLink(), uid) ??
      (entry.isDirectory() ? below(root, name, uid, depth - 1, wanted) : undefined);
    if (found !== undefined) return found;
  }
  return undefined;
}

function ofEntry(path: string, isLink: boolean, uid: number): Distrust | undefined {
  // A link such as `slots` to a clone elsewhere. A link to a file is as trustworthy as the link's owner.
  if (isLink && statusOf(path, statSync)?.isDirectory() === true) return alongPath(path, uid);
  const status = statusOf(path, lstatSync);
  if (status === undefined) return undefined;
  if (!isLink) return ofDirectory(path, status, uid, false);
  return status.uid === uid || status.uid === 0 ? undefined : foreign(path, "is a link of", status.uid);
}

/**
 * The same of a plain file that this process has open; `status` is its descriptor's. A link at the path is as trustworthy
 * as the link's owner.
 */
export function distrustOpened(path: string, status: Stats): Distrust | undefined {
  const uid = process.geteuid?.();
  if (uid === undefined) return undefined;
  const link = statusOf(path, lstatSync);
  const found = link?.isSymbolicLink() === true ? ofEntry(path, true, uid) : ofDirectory(path, status, uid, false);
  return found === undefined || found.next.startsWith("chmod") ? found : { ...found, next: makeOwn(path) };
}

/** Undefined where it cannot be seen. */
function statusOf(path: string, read: (path: string) => Stats): Stats | undefined {
  try {
    return read(path);
  } catch {
    return undefined;
  }
}

/** Empty where it cannot be read. */
function entriesOf(directory: string): readonly Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    return [];
  }
}

function isFixed(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return errorCode(error) === "EROFS";
  }
}

/** A judgement about many files asks the same of each; the files of accounts are read once a second at most. */
function isPrivate(gid: number, uid: number): boolean {
  const key = `${gid}:${uid}`;
  const known = judgedGroups.get(key);
  if (known !== undefined && performance.now() - known.atMs < 1000) return known.isPrivate;
  const judged = { isPrivate: isPrivateGroup(gid, uid), atMs: performance.now() };
  if (judgedGroups.size > 100) judgedGroups.clear();
  judgedGroups.set(key, judged);
  return judged.isPrivate;
}

function foreign(path: string, how: string, uid: number): Distrust {
  return {
    reason: `${path} ${how} ${userName(uid)}, who may change its contents`,
    next: `run this as that user, name a place of your own, or ${makeOwn(path)}`,
  };
}

function makeOwn(path: string): string {
  return `make it yours: chown -h ${userName(process.geteuid?.() ?? 0, false)} ${path}`;
}
