import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { knownPart } from "../../api/known-part.ts";
import { demandSchema, type Demand } from "../../api/status.ts";
import { writeJsonNow } from "../../lib/atomic-file.ts";
import { bootId } from "../../lib/boot-id.ts";
import { errorCode } from "../../lib/error-code.ts";
import { JsonDirectory } from "../../lib/json-directory.ts";
import { parseJson } from "../../lib/json.ts";
import { readTextOrNothing } from "../../lib/read-text.ts";
import { everySecond } from "../../lib/pulse.ts";
import { Serial } from "../../lib/serial.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import type { Documents, DocumentsOptions } from "../documents.ts";
import type { DemandReport, DemandStore, DemandWriter } from "../store.ts";
import { LivenessWatch, type Clocks } from "./liveness.ts";

/**
 * The demand of every live gateway. A file whose heartbeat does not change, or was written before the last boot of this
 * machine, is void (`LivenessWatch`).
 */
export async function openDemandStore(stateDir: string, clocks: Clocks = {}): Promise<DemandStore> {
  return await demandStore(async (options) => await JsonDirectory.open(join(stateDir, "demand"), options), clocks);
}

/** Where the records of gateways are, whatever keeps them. */
export type OpenDemandRecords = (
  options: DocumentsOptions<Demand>,
) => Promise<Pick<Documents<Demand>, "values"> & AsyncDisposable>;

export async function demandStore(open: OpenDemandRecords, clocks: Clocks = {}): Promise<DemandStore> {
  const liveness = new LivenessWatch(clocks);
  const subscribers = new Subscribers<[slots: readonly string[]]>();
  let lastSeen = new Map<string, string>();
  let isOpen = false;
  const directory = await open({
    parse: (value) => knownPart(demandSchema, value),
    onChange: () => {
      if (!isOpen) return;
      liveness.note(new Map(directory.values()));
      compare();
    },
  });
  const list = (): readonly Demand[] =>
    [...directory.values()].flatMap(([name, demand]) => (liveness.of(name, demand) === "live" ? [demand] : []));
  /** Notifies about slots whose demand has changed; heartbeats alone cause no notification. */
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
    if (changed.size > 0) subscribers.notify([...changed]);
  }
  isOpen = true;
  liveness.note(new Map(directory.values()));
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

/**
 * Whether a live gateway publishes its demand in this state directory, in one read; undefined where it cannot be read.
 * Gateways of other machines are not counted: one read of their heartbeats proves nothing.
 */
export async function hasLiveGateway(stateDir: string): Promise<boolean | undefined> {
  const liveness = new LivenessWatch();
  const directory = join(stateDir, "demand");
  try {
    for (const file of await readdir(directory)) {
      if (!file.endsWith(".json") || file.startsWith(".")) continue;
      const demand = knownPart(demandSchema, parseJson(await readTextOrNothing(join(directory, file))));
      if (demand !== undefined && liveness.of(file, demand) === "live") return true;
    }
    return false;
  } catch (error) {
    return errorCode(error) === "ENOENT" ? false : undefined;
  }
}

/** Many times the age at which demand is void. */
const voidDemandMs = 60_000;

/** Removes files of killed gateways, at the start of an operator and of a gateway; a live gateway writes its own every second. */
export async function removeVoidDemand(dir: string): Promise<void> {
  for (const file of await readdir(dir)) {
    const path = join(dir, file);
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile() === true && Date.now() - found.mtimeMs > voidDemandMs) await rm(path, { force: true });
  }
}

/** Counts and times alone: the operator may be another user. */
const demandMode = 0o644;

/** One gateway's file; disposing removes it, so that no slot waits for this gateway any more. */
export async function openDemandWriter(stateDir: string, gateway: string): Promise<DemandWriter> {
  const directory = join(stateDir, "demand");
  await mkdir(directory, { recursive: true });
  // Where another user owns them, the operator removes them.
  await removeVoidDemand(directory).catch(() => undefined);
  const path = join(directory, `${gateway}.json`);
  const writes = new Serial();
  let beat = 0;
  let isClosed = false;
  const stamped = (report: DemandReport): string => {
    const heartbeat = new Date().toISOString();
    const stamp = { gateway, pid: process.pid, bootId: bootId(), heartbeat, incarnation: gateway, beat };
    const demand: Demand = { schema: 1, ...stamp, ...report };
    return JSON.stringify(demand);
  };
  return {
    write: (report) =>
      writes.run(async () => {
        // A late write must not bring back the demand of a closed gateway.
        if (isClosed) return;
        beat += 1;
        const text = stamped(report);
        try {
          writeJsonNow(path, text, demandMode);
        } catch (error) {
          if (errorCode(error) !== "ENOENT") throw error;
          await mkdir(directory, { recursive: true });
          writeJsonNow(path, text, demandMode);
        }
      }),
    [Symbol.asyncDispose]() {
      isClosed = true;
      return writes.run(() => rm(path, { force: true }));
    },
  };
}
