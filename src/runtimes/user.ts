import { readFile } from "node:fs/promises";
import { BadWorkload } from "./start-failure.ts";

/** Whom engines run as. */
export interface EngineUser {
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

/**
 * The user of that name or number, from /etc/passwd; undefined when none is asked for, or when this process is not
 * root and so cannot change users.
 */
export async function findUser(name: string | undefined): Promise<EngineUser | undefined> {
  if (name === undefined || process.getuid?.() !== 0) return undefined;
  for (const line of (await readFile("/etc/passwd", "utf8")).split("\n")) {
    const [login, , uid = "", gid = "", , home = "/"] = line.split(":");
    if (login === name || uid === name) return { uid: Number(uid), gid: Number(gid), home };
  }
  throw new BadWorkload(`SVC_ENGINE_USER: there is no user ${name} in /etc/passwd`);
}
