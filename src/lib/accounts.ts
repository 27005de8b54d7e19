import { readFileSync } from "node:fs";

/** A user of /etc/passwd. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/** The accounts of this machine; none where the file cannot be read. Accounts of a directory service are missing. */
function accounts(): readonly Account[] {
  return linesOf("/etc/passwd").map(([name = "", , uid, gid, , home = "/"]) => ({
    name,
    uid: Number(uid),
    gid: Number(gid),
    home,
  }));
}

export function accountOf(uid: number): Account | undefined {
  return accounts().find((account) => account.uid === uid);
}

export function accountNamed(name: string): Account | undefined {
  return accounts().find((account) => account.name === name);
}

/** The gid of the group of that name; undefined where /etc/group has no such group. */
export function groupNamed(name: string): number | undefined {
  const found = linesOf("/etc/group").find(([known]) => known === name);
  return found === undefined ? undefined : Number(found[2]);
}

/** `ada (uid 1000)`, or the name alone; `uid 1000` where the number has no name. */
export function userName(uid: number, withNumber = true): string {
  const account = accountOf(uid);
  if (account === undefined) return withNumber ? `uid ${uid}` : String(uid);
  return withNumber ? `${account.name} (uid ${uid})` : account.name;
}

/**
 * Whether only this user and root are in the group, as in the private group that distributions give each user, whose
 * files the group may write.
 */
export function isPrivateGroup(gid: number, uid: number): boolean {
  const known = accounts();
  const isOther = (account: Account): boolean => account.uid !== uid && account.uid !== 0;
  if (known.some((account) => account.gid === gid && isOther(account))) return false;
  const members = linesOf("/etc/group")
    .filter(([, , number]) => Number(number) === gid)
    .flatMap(([, , , names = ""]) => names.split(",").filter((name) => name !== ""));
  return members.every((member) => known.some((account) => account.name === member && !isOther(account)));
}

/** The groups of the user: the primary group, and the groups that list the user. */
export function groupsOf(account: Account): readonly number[] {
  const named = linesOf("/etc/group").filter(([, , , names = ""]) => names.split(",").includes(account.name));
  return [...new Set([account.gid, ...named.map(([, , number]) => Number(number))])];
}

/** Synchronous: small local files, of which a judgement about many files needs several. */
function linesOf(file: string): readonly (readonly string[])[] {
  return textOf(file)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(":"));
}

/** Empty where it cannot be read. */
function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
