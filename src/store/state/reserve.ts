import { rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { isNoSpace } from "../../lib/disk-space.ts";

const reserveBytes = 32_768;
const fileIn = (stateDir: string): string => join(stateDir, "reserve");

/** Keeps some blocks of the disk for a start on a full disk. Never rejects: without space there is no reserve. */
export async function keepReserve(stateDir: string): Promise<void> {
  // Written bytes: a sparse file holds no block.
  const content = Buffer.alloc(reserveBytes, " ");
  await writeFileAtomic(fileIn(stateDir), content, { fsync: false, mode: 0o600 }).catch(() => undefined);
}

/** Runs the work; on a full disk, gives up the reserve and runs it once more. Rejects as `work` does. */
export async function withReserve<T>(stateDir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isNoSpace(error)) throw error;
    await rm(fileIn(stateDir), { force: true });
    return await work();
  }
}
