import { join } from "node:path";
import { compare, hash } from "bcrypt";
import { adminRecordSchema, type AdminRecord } from "../../api/admin.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText } from "../../lib/read-text.ts";
import { privateDirectory } from "../state/state-owner.ts";

/** 2^12 rounds: a quarter of a second per guess. The proxy checks the password; this service never does. */
const cost = 12;

/**
 * The edge proxy's user, in `<state>/auth/admin.json`; undefined without a record, and for a torn file: a parser's
 * message would contain a part of the hash.
 */
export async function readAdmin(stateDir: string): Promise<AdminRecord | undefined> {
  const text = await readText(join(stateDir, "auth", "admin.json"));
  return text === undefined ? undefined : adminRecordSchema.safeParse(parseJson(text)).data;
}

/** Whether this user is kept, with this password. */
export async function isAdmin(stateDir: string, user: string, password: string): Promise<boolean> {
  const known = await readAdmin(stateDir);
  return known?.user === user && (await compare(password, known.bcrypt));
}

/**
 * Keeps the user with a hash of the password, not the password. The same password keeps the present record, so that a
 * proxy's configuration written twice is the same text.
 */
export async function keepAdmin(stateDir: string, user: string, password: string): Promise<AdminRecord> {
  const known = await readAdmin(stateDir);
  if (known?.user === user && (await compare(password, known.bcrypt))) return known;
  const record: AdminRecord = { schema: 1, user, bcrypt: await hash(password, cost) };
  const path = join(await privateDirectory(stateDir), "admin.json");
  await writeFileAtomic(path, JSON.stringify(record), { fsync: true, mode: 0o600 });
  return record;
}
