import { randomUUID } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { readText } from "../../lib/read-text.ts";
import { usualLock } from "./lock.ts";

/** How often a lost leader checks that the name is still on the disk. */
const checkMs = 250;
/** The name has stayed when this many checks in a row have found it: for two beats of the lock. */
const checksToStay = (2 * usualLock.beatMs) / checkMs;
/** A deletion that goes on for longer, ten seconds, is left to the next leader, which also writes the name before it ends. */
const maxChecks = 40;

/** The file that holds the name. */
export function instancePath(stateDir: string): string {
  return join(stateDir, "instance");
}

/** The name of this installation on shared runtimes; undefined without one on the disk. */
export async function readInstance(stateDir: string): Promise<string | undefined> {
  const name = (await readText(instancePath(stateDir)))?.trim() ?? "";
  return name === "" ? undefined : name;
}

/** The name of this installation on shared runtimes; made once. */
export async function openInstance(stateDir: string): Promise<string> {
  const known = await readInstance(stateDir);
  if (known !== undefined) return known;
  const made = randomUUID();
  // Permanent: under another name this installation would not find its own engines again.
  await writeFileAtomic(instancePath(stateDir), `${made}\n`, { fsync: true });
  return made;
}

/** Writes the name where it is missing. Resolves with false where it was on the disk already. */
export async function restoreInstance(stateDir: string, instance: string): Promise<boolean> {
  if ((await readInstance(stateDir)) !== undefined) return false;
  await mkdir(stateDir, { recursive: true });
  await writeFileAtomic(instancePath(stateDir), `${instance}\n`, { fsync: true }).catch((error: unknown) => {
    // The directory was deleted again meanwhile.
    if (errorCode(error) !== "ENOENT") throw error;
  });
  return true;
}

/**
 * Writes the name again until it stays: the deletion of a directory takes a while, and deletes what is written into the
 * directory meanwhile. `pause` waits between two checks.
 */
export async function restoreInstanceToStay(
  stateDir: string,
  instance: string,
  pause: () => Promise<void> = () => delay(checkMs, undefined, { ref: false }),
): Promise<void> {
  let found = 0;
  for (let checks = 0; checks < maxChecks && found < checksToStay; checks += 1) {
    if (checks > 0) await pause();
    found = (await restoreInstance(stateDir, instance)) ? 0 : found + 1;
  }
}
