import { readFile } from "node:fs/promises";
import { BadWorkload } from "../start-failure.ts";

/**
 * The user of engines, and their one group: Node removes all others from a child whose user it changes (libuv calls
 * `setgroups(0, NULL)`), so that a device of another group is inaccessible. A program such as setpriv could keep them,
 * but would be run as root with the manifest's environment: LD_PRELOAD.
 */
export interface EngineUser {
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/**
 * The user of that name or number, from /etc/passwd, with its primary group or, as USER:GROUP, with the given one;
 * undefined without a setting, or when this process is not root and so cannot change users. Throws BadWorkload for an
 * unknown user or group.
 */
export async function findUser(wanted: string | undefined): Promise<EngineUser | undefined> {
  if (wanted === undefined || process.getuid?.() !== 0) return undefined;
  const [name = "", group] = wanted.split(":");
  const user = await findLine("/etc/passwd", name);
  if (user === undefined) throw new BadWorkload(`SVC_ENGINE_USER: there is no user ${name} in /etc/passwd`);
  const [, , uid = "", gid = "", , home = "/"] = user;
  return { uid: Number(uid), gid: group === undefined ? Number(gid) : await findGroup(group), home };
}

/** The user of this process. */
export function ownUser(): number {
  return process.geteuid?.() ?? -1;
}

/** Every user that engines of this operator may have; an unknown one is reported when it is used. */
export async function usersOfEngines(wanted: string | undefined): Promise<readonly number[]> {
  const user = await findUser(wanted).catch(() => undefined);
  return user === undefined ? [ownUser()] : [ownUser(), user.uid];
}

async function findGroup(name: string): Promise<number> {
  const group = await findLine("/etc/group", name);
  if (group === undefined) throw new BadWorkload(`SVC_ENGINE_USER: there is no group ${name} in /etc/group`);
  return Number(group[2]);
}

/** The fields of the line with that name or number, its third field. */
async function findLine(file: string, wanted: string): Promise<readonly string[] | undefined> {
  const lines = (await readFile(file, "utf8")).split("\n").map((line) => line.split(":"));
  return lines.find(([name, , number]) => wanted !== "" && (name === wanted || number === wanted));
}
