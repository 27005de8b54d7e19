import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, statSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { slotNameSchema } from "../../api/names.ts";
import { once, readPublishedSlot, type OnUnknown } from "../../api/published-slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import { setAside } from "../../lib/aside.ts";
import { removeLeftovers, syncFile, writeJsonNow } from "../../lib/atomic-file.ts";
import { isNoSpace } from "../../lib/disk-space.ts";
import { errorCode } from "../../lib/error-code.ts";
import { readPlainText, UnfitFile } from "../../lib/small-file.ts";
import type { Publisher } from "../store.ts";
import { removeVoidDemand } from "./demand.ts";
import { keepReserve } from "./reserve.ts";

export interface PublisherOptions {
  readonly onUnknown?: OnUnknown;
  /** Throws where this operator leads no more: then nothing is written. */
  readonly check?: () => void;
}

/**
 * The operator's writer. Generations and results of benchmarks soon survive a power cut; the rest of a status need not: it
 * is observed again.
 */
export async function openPublisher(stateDir: string, options: PublisherOptions = {}): Promise<Publisher> {
  const report = once(options.onUnknown);
  const incarnation = randomUUID();
  let beat = 0;
  let hasFailed = false;
  const write = async (path: string, value: unknown): Promise<void> => {
    options.check?.();
    writeJsonNow(path, JSON.stringify(value));
  };
  const slotsDir = join(stateDir, "slots");
  for (const dir of [stateDir, ...["slots", "demand", "requests"].map((name) => join(stateDir, name))]) {
    await mkdir(dir, { recursive: true });
    await removeLeftovers(dir);
  }
  await removeVoidDemand(join(stateDir, "demand"));
  /** When the directory last changed, at a time when every slot's file was there. */
  let completeMs: number | undefined;
  /** By slot: the generation (DECISIONS 15) and the benchmark that are on disk for certain, or are being synced. */
  const synced = new Map<string, string>();
  const removeFile = async (name: string): Promise<void> => {
    options.check?.();
    await rm(join(slotsDir, `${slotNameSchema.parse(name)}.json`), { force: true });
    synced.delete(name);
  };
  return {
    async readSlots() {
      const found: PublishedSlot[] = [];
      for (const file of await readdir(slotsDir)) {
        if (file.startsWith(".")) {
          await rm(join(slotsDir, file), { force: true }).catch(() => setAside(stateDir, join(slotsDir, file), file));
          continue;
        }
        const slot = readSlot(join(slotsDir, file), (what) => report(`${file}: ${what}`));
        if (slot !== undefined && `${slot.name}.json` === file) found.push(slot);
        else await setAside(stateDir, join(slotsDir, file), file);
      }
      return found;
    },
    place: stateDir,
    async writeSlot(slot) {
      const path = join(slotsDir, `${slotNameSchema.parse(slot.name)}.json`);
      try {
        await write(path, slot);
      } catch (error) {
        if (errorCode(error) === "ENOENT") await mkdir(slotsDir, { recursive: true });
        else if (!isNoSpace(error)) throw error;
        // The history is dropped first: without it the rest nearly always fits in the file's blocks.
        const { status } = slot;
        await write(
          path,
          isNoSpace(error) ? { ...slot, status: { ...status, transitions: status.transitions.slice(-1) } } : slot,
        );
      }
      const lasting = `${slot.generation} ${slot.status.lastBenchmark?.measuredAt ?? ""}`;
      if (synced.get(slot.name) === lasting) return;
      synced.set(slot.name, lasting);
      // Nothing waits for the disk: a power cut within these milliseconds costs at most one generation's number, or one result.
      void syncFile(path).catch(() => synced.delete(slot.name));
    },
    deleteSlot: removeFile,
    hideSlot: removeFile,
    missingSlots(names) {
      const changedMs = statSync(slotsDir, { throwIfNoEntry: false })?.mtimeMs;
      if (changedMs !== undefined && changedMs === completeMs) return [];
      const present = new Set(filesIn(slotsDir));
      const missing = [...names].filter((name) => !present.has(`${name}.json`));
      // Times of directories are coarse: another change may have the same time as a recent one.
      const isOld = changedMs !== undefined && Math.abs(Date.now() - changedMs) > youngMs;
      completeMs = missing.length === 0 && isOld ? changedMs : undefined;
      return missing;
    },
    hasRegistry: () => existsSync(join(stateDir, "registry.json")),
    writeRegistry: (registry) => write(join(stateDir, "registry.json"), registry),
    async writeOperator(operator) {
      beat += 1;
      const heartbeat = new Date().toISOString();
      try {
        await write(join(stateDir, "operator.json"), { heartbeat, incarnation, beat, ...operator });
      } catch (error) {
        hasFailed = true;
        throw error;
      }
      // The reserve that was given up on the full disk is kept again.
      if (hasFailed) void keepReserve(stateDir);
      hasFailed = false;
    },
  };
}

/** None for a missing directory. */
function filesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

const youngMs = 100;

/** Synchronous: once at the start, a thousand small files take a tenth of the time of asynchronous reads. */
function readSlot(path: string, onUnknown: OnUnknown): PublishedSlot | undefined {
  try {
    return readPublishedSlot(JSON.parse(readPlainText(path)), onUnknown);
  } catch (error) {
    // A directory, a pipe or a link under that name is no state either.
    if (error instanceof SyntaxError || error instanceof UnfitFile || errorCode(error) === "ELOOP") return undefined;
    throw error;
  }
}
