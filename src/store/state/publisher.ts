import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { slotNameSchema } from "../../api/names.ts";
import { once, readPublishedSlot, type OnUnknown } from "../../api/published-slot.ts";
import type { PublishedSlot } from "../../api/status.ts";
import { setAside } from "../../lib/aside.ts";
import { removeLeftovers, syncFile, writeJsonNow } from "../../lib/atomic-file.ts";
import { errorCode } from "../../lib/error-code.ts";
import { readPlainText, UnfitFile } from "../../lib/small-file.ts";
import type { Publisher } from "../store.ts";
import { removeVoidDemand } from "./demand.ts";

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
  const write = (path: string, value: unknown): void => {
    options.check?.();
    writeJsonNow(path, JSON.stringify(value));
  };
  const slotsDir = join(stateDir, "slots");
  for (const dir of [stateDir, ...["slots", "demand", "requests"].map((name) => join(stateDir, name))]) {
    await mkdir(dir, { recursive: true });
    await removeLeftovers(dir);
  }
  await removeVoidDemand(join(stateDir, "demand"));
  /** By slot: the generation (DECISIONS 15) and the benchmark that are on disk for certain, or are being synced. */
  const synced = new Map<string, string>();
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
      write(path, slot);
      const lasting = `${slot.generation} ${slot.status.lastBenchmark?.measuredAt ?? ""}`;
      if (synced.get(slot.name) === lasting) return;
      synced.set(slot.name, lasting);
      // Nothing waits for the disk: a power cut within these milliseconds costs at most one generation's number, or one result.
      void syncFile(path).catch(() => synced.delete(slot.name));
    },
    async deleteSlot(name) {
      options.check?.();
      await rm(join(slotsDir, `${slotNameSchema.parse(name)}.json`), { force: true });
      synced.delete(name);
    },
    missingSlots(names) {
      // Without the directory the operator ends, and the next one makes it again.
      const files = filesIn(slotsDir);
      if (files === undefined) return [];
      const present = new Set(files);
      return [...names].filter((name) => !present.has(`${name}.json`));
    },
    hasRegistry: () => existsSync(join(stateDir, "registry.json")),
    async writeRegistry(registry) {
      write(join(stateDir, "registry.json"), registry);
    },
    async writeOperator(operator) {
      beat += 1;
      const heartbeat = new Date().toISOString();
      write(join(stateDir, "operator.json"), { heartbeat, incarnation, beat, ...operator });
    },
  };
}

/** Undefined for a missing directory. */
function filesIn(directory: string): readonly string[] | undefined {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

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
