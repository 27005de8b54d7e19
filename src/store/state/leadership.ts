import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { Store } from "../opened-store.ts";
import { LeadershipLost, type LeadOptions, type Lease } from "../store.ts";
import {
  acquireLock,
  LockHeld,
  lockHolder,
  lockSight,
  trustMs,
  usualLock,
  type HeldLock,
  type LockSight,
} from "./lock.ts";
import { readInstance, restoreInstance } from "./instance.ts";

/** How often a standby checks whether the leader is gone. */
const pollMs = 250;

/** Of the operators of one state directory only the holder of `operator.lock` acts. */
export function fileLeadership(stateDir: string): {
  lead(options: Omit<LeadOptions, "onWarning">): Promise<Lease>;
  leader: Store["leader"];
} {
  const path = join(stateDir, "operator.lock");
  return {
    leader: async () => await lockHolder(path),
    async lead(options) {
      const acquire = async (expired?: LockSight): Promise<HeldLock> => {
        await mkdir(dirname(path), { recursive: true });
        return await acquireLock(path, {
          ...usualLock,
          onLost: options.onLost,
          ...(expired === undefined ? {} : { expired }),
        });
      };
      const lock =
        options.standby === undefined ? await acquire() : await inTurn(stateDir, path, acquire, options.standby);
      return leaseOf(lock);
    },
  };
}

/**
 * Waits until the lock is free, its holder is gone, or its holder has not touched it for too long. A state directory that
 * was deleted is made again, with the name of the installation: the operator that led there ends, or hangs.
 */
async function inTurn(
  stateDir: string,
  path: string,
  acquire: (expired?: LockSight) => Promise<HeldLock>,
  { onWaiting, signal }: NonNullable<LeadOptions["standby"]>,
): Promise<HeldLock> {
  /** The last sight of the lock, and since when it has not changed. */
  let last: { readonly sight: LockSight; readonly sinceMs: number } | undefined;
  let isWaiting = false;
  let instance: string | undefined;
  for (;;) {
    signal.throwIfAborted();
    instance ??= await readInstance(stateDir);
    const sight = lockSight(path);
    if (sight !== undefined && (last?.sight.text !== sight.text || last.sight.touchedMs !== sight.touchedMs))
      last = { sight, sinceMs: steadyNow() };
    const isExpired = sight?.leaseMs !== undefined && last !== undefined && steadyNow() - last.sinceMs > sight.leaseMs;
    if (sight?.pid === undefined || isExpired) {
      const isDeleted = !existsSync(stateDir);
      try {
        const lock = await acquire(isExpired ? sight : undefined);
        // The holder may live, and trusts its last check for a while: after this delay it has stopped acting.
        if (isExpired) await delay(2 * trustMs);
        // Under another name the engines of the operator that led would not be found. Where this operator never saw the
        // name, the operator that led writes it within a beat.
        if (instance !== undefined) await restoreInstance(stateDir, instance);
        else if (isDeleted) await delay(2 * usualLock.beatMs);
        return lock;
      } catch (error) {
        // Another standby was faster, or the leader continued.
        if (!(error instanceof LockHeld)) throw error;
      }
    }
    if (!isWaiting && sight?.pid !== undefined) {
      isWaiting = true;
      onWaiting(sight.pid);
    }
    await delay(pollMs, undefined, { signal });
  }
}

function leaseOf(lock: HeldLock): Lease {
  return {
    check() {
      if (!lock.isHeld()) throw new LeadershipLost();
    },
    [Symbol.asyncDispose]: () => lock[Symbol.asyncDispose](),
  };
}
