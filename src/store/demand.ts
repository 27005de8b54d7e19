import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { knownPart } from "../api/known-part.ts";
import { demandSchema, heartbeatTtlMs, type Demand } from "../api/status.ts";
import { writeJsonNow } from "../lib/atomic-file.ts";
import { bootId } from "../lib/boot-id.ts";
import { errorCode } from "../lib/error-code.ts";
import { JsonDirectory } from "../lib/json-directory.ts";
import { everySecond } from "../lib/pulse.ts";
import { Serial } from "../lib/serial.ts";
import { Subscribers } from "../lib/subscribers.ts";
import type { DemandStore } from "./store.ts";

/** Whether the gateway that wrote it lives; `now` in milliseconds since the epoch. */
export function isLive({ heartbeat, bootId: boot }: Demand, now: number): boolean {
  // One from the future is as old as it is ahead: a clock set back must not make a dead gateway immortal.
  return boot === bootId() && Math.abs(now - Date.parse(heartbeat)) < heartbeatTtlMs;
}

/**
 * What every live gateway wants. A file without a fresh heartbeat, or of another boot, is void. One whose heartbeat was
 * seen to go on just now is live though the clock says another thing: it was set, and the next heartbeat is to come.
 */
export async function openDemandStore(
  stateDir: string,
  options: {
    readonly now?: () => Date;
    /** Time that goes by whatever the clock is set to. */
    readonly elapsedMs?: () => number;
  } = {},
): Promise<DemandStore> {
  const { now = () => new Date(), elapsedMs = () => performance.now() } = options;
  /** The last heartbeat of each gateway, and when it took the place of another. */
  const heard = new Map<string, { readonly heartbeat: string; readonly atMs: number }>();
  const subscribers = new Subscribers<[slots: readonly string[]]>();
  let lastSeen = new Map<string, string>();
  let isOpen = false;
  const directory = await JsonDirectory.open<Demand>(join(stateDir, "demand"), {
    parse: (value) => knownPart(demandSchema, value),
    onChange: () => {
      if (!isOpen) return;
      hear();
      compare();
    },
  });
  const list = (): readonly Demand[] => {
    const clock = now().getTime();
    const elapsed = elapsedMs();
    return [...directory.values()].flatMap(([name, demand]) => {
      const known = heard.get(name);
      const isGoingOn = demand.bootId === bootId() && known !== undefined && elapsed - known.atMs < heartbeatTtlMs;
      return isLive(demand, clock) || isGoingOn ? [demand] : [];
    });
  };
  function hear(): void {
    const present = new Map(directory.values());
    for (const name of heard.keys()) if (!present.has(name)) heard.delete(name);
    for (const [name, { heartbeat }] of present) {
      const known = heard.get(name);
      if (known?.heartbeat === heartbeat) continue;
      heard.set(name, { heartbeat, atMs: known === undefined ? -Infinity : elapsedMs() });
    }
  }
  /** Tells which slots' demand differs from the last look; heartbeats alone tell nothing. */
  function compare(): void {
    const seen = new Map<string, string>();
    for (const { gateway, slots } of list()) {
      for (const [slot, demand] of Object.entries(slots)) seen.set(`${gateway} ${slot}`, JSON.stringify(demand));
    }
    const changed = new Set<string>();
    for (const key of new Set([...seen.keys(), ...lastSeen.keys()])) {
      if (seen.get(key) !== lastSeen.get(key)) changed.add(key.slice(key.indexOf(" ") + 1));
    }
    lastSeen = seen;
    if (changed.size > 0) subscribers.tell([...changed]);
  }
  isOpen = true;
  hear();
  compare();
  // A gateway that dies writes nothing: its demand ends by age.
  const ageing = everySecond(compare);
  return {
    list,
    watch: (onSlots) => subscribers.add(onSlots),
    async [Symbol.asyncDispose]() {
      ageing[Symbol.dispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Counts and times alone: the operator may be another user. */
const demandMode = 0o644;

export interface DemandWriter extends AsyncDisposable {
  write(demand: Demand): Promise<void>;
}

/** One gateway's file; disposing removes it, so that nothing waits for this gateway any more. */
export async function openDemandWriter(stateDir: string, gateway: string): Promise<DemandWriter> {
  const directory = join(stateDir, "demand");
  await mkdir(directory, { recursive: true });
  const path = join(directory, `${gateway}.json`);
  const writes = new Serial();
  let isClosed = false;
  return {
    write: (demand) =>
      writes.run(async () => {
        // A late write must not bring back the demand of a gateway that is gone.
        if (isClosed) return;
        try {
          writeJsonNow(path, JSON.stringify(demand), demandMode);
        } catch (error) {
          if (errorCode(error) !== "ENOENT") throw error;
          await mkdir(directory, { recursive: true });
          writeJsonNow(path, JSON.stringify(demand), demandMode);
        }
      }),
    [Symbol.asyncDispose]() {
      isClosed = true;
      return writes.run(() => rm(path, { force: true }));
    },
  };
}
