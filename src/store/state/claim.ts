import { open, rm, stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { errorCode } from "../../lib/error-code.ts";
import { steadyNow } from "../../lib/steady-clock.ts";

const usualStaleMs = 10_000;

/** Others have held the claim for as long as was waited. */
export class ClaimHeld extends Error {
  override readonly name = "ClaimHeld";
}

export interface Claim extends AsyncDisposable {
  /** False: it has been held for so long that others may be about to take it over. */
  isSafe(): boolean;
}

/**
 * Creates a file that only one process at a time can create, and removes it once disposed: for work of milliseconds.
 * Nobody refreshes it: one of `staleMs` is of a process that is gone, and is taken over. Waits up to `waitMs` for that of
 * another. Rejects with ClaimHeld, or with the file system's error.
 */
export async function takeClaim(path: string, { waitMs = 3000, staleMs = usualStaleMs } = {}): Promise<Claim> {
  const until = steadyNow() + waitMs;
  for (;;) {
    const since = steadyNow();
    if (await isCreated(path)) {
      return {
        isSafe: () => steadyNow() - since < staleMs / 2,
        [Symbol.asyncDispose]: async () => {
          // A later one may be another's.
          if (steadyNow() - since < staleMs) await rm(path, { force: true });
        },
      };
    }
    await removeStaleClaim(path, staleMs);
    if (steadyNow() > until) throw new ClaimHeld(`${path} is held by another process`);
    await delay(5 + Math.random() * 20);
  }
}

async function isCreated(path: string): Promise<boolean> {
  try {
    await (await open(path, "wx", 0o600)).close();
    return true;
  } catch (error) {
    if (errorCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** False also where it is gone. A time far ahead, of a clock that has been set back since, is stale, too. */
async function isStale(path: string, staleMs: number): Promise<boolean> {
  try {
    return Math.abs(Date.now() - (await stat(path)).mtimeMs) > staleMs;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}

/** Under a claim of its own: one that has seen the stale file never removes the fresh file of another. */
export async function removeStaleClaim(path: string, staleMs = usualStaleMs): Promise<void> {
  if (!(await isStale(path, staleMs))) return;
  await using _guard = await takeClaim(`${path}.stale`);
  if (await isStale(path, staleMs)) await rm(path, { force: true });
}
