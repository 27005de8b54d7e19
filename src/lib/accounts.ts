import { readFile } from "node:fs/promises";

/** A user of /etc/passwd. */
export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/** The accounts of this machine; none where the file cannot be read. Accounts of a directory service are missing. */
async function accounts(): Promise<readonly Account[]> {
  return (await linesOf("/etc/passwd")).map(([name = "", , uid, gid, , home = "/"]) => ({
    name,
    uid: Number(uid),
    gid: Number(gid),
    home,
  }));
}

export async function accountOf(uid: number): Promise<Account | undefined> {
  return (await accounts()).find((account) => account.uid === uid);
}

/** `ada (uid 1000)`, or the name alone; `uid 1000` where the number has no name. */
export async function userName(uid: number, withNumber = true): Promise<string> {
  const account = await accountOf(uid);
  if (account === undefined) return withNumber ? `uid ${uid}` : String(uid);
  return withNumber ? `${account.name} (uid ${uid})` : account.name;
}

/**
 * Whether only this user and root are in the group, as in the private group that distributions give each user, whose
 * files the group may write.
 */
export async function isPrivateGroup(gid: number, uid: number): Promise<boolean> {
  const known = await accounts();
  const isOther = (account: Account): boolean => account.uid !== uid && account.uid !== 0;
  if (known.some((account) => account.gid === gid && isOther(account))) return false;
  const members = (await linesOf("/etc/group"))
    .filter(([, , number]) => Number(number) === gid)
    .flatMap(([, , , names = ""]) => names.split(",").filter((name) => name !== ""));
  return members.every((member) => known.some((account) => account.name === member && !isOther(account)));
}

/** The groups of the user: the primary group, and the groups that list the user. */
export async function groupsOf(account: Account): Promise<readonly number[]> {
  const named = (await linesOf("/etc/group")).filter(([, , , names = ""]) => names.split(",").includes(account.name));
  return [...new Set([account.gid, ...named.map(([, , number]) => Number(number))])];
}

async function linesOf(file: string): Promise<readonly (readonly string[])[]> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(":"));
}
