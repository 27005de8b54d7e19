import { existsSync, readdirSync, statSync } from "node:fs";
import { mkdir, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { knownPart } from "../api/known-part.ts";
import { slotNameSchema } from "../api/names.ts";
import {
  publishedOperatorSchema,
  publishedRegistrySchema,
  type PublishedOperator,
  type PublishedRegistry,
  type PublishedSlot,
} from "../api/status.ts";
import { removeLeftovers, syncFile, writeJsonNow } from "../lib/atomic-file.ts";
import { isNoSpace } from "../lib/disk-space.ts";
import { errorCode } from "../lib/error-code.ts";
import { JsonDirectory } from "../lib/json-directory.ts";
import { parseJson } from "../lib/json.ts";
import { Subscribers } from "../lib/subscribers.ts";
import { readPlainText, UnfitFile } from "../lib/small-file.ts";
import { setAside } from "../lib/aside.ts";
import { nameIn, once, readPublishedSlot, readRemnant, type OnUnknown } from "../api/published-slot.ts";
import type { PublishedChange, PublishedStore, Publisher } from "./store.ts";

const emptyRegistry: PublishedRegistry = { schema: 1, models: [], upstreams: [] };

/** Reads what the operator publishes and follows it. Needs no operator: an absent state is an empty one. */
export async function openPublished(
  stateDir: string,
  options: { sweepMs?: number; onUnknown?: OnUnknown } = {},
): Promise<PublishedStore> {
  const told = once(options.onUnknown);
  const subscribers = new Subscribers<[change: PublishedChange]>();
  await using stack = new AsyncDisposableStack();
  const top = stack.use(
    await JsonDirectory.open<PublishedOperator | PublishedRegistry>(stateDir, {
      ...options,
      include: (file) => file === "operator.json" || file === "registry.json",
      parse: (value) =>
        knownPart(publishedOperatorSchema, value) ??
        knownPart(publishedRegistrySchema, value, { onUnknown: (what) => told(`registry: ${what}`) }),
      onChange: (names) =>
        subscribers.tell({ slots: [], registry: names.includes("registry"), operator: names.includes("operator") }),
    }),
  );
  const opened: { slots?: JsonDirectory<PublishedSlot> } = {};
  const readAnySlot = (value: unknown): PublishedSlot | undefined => {
    const read = readPublishedSlot(value, (what) => told(`slot ${nameIn(value)}: ${what}`));
    if (read !== undefined) return read;
    const remnant = readRemnant(value, opened.slots?.get(nameIn(value)));
    told(`slot ${nameIn(value)}: ${remnant === undefined ? "nothing" : "no more than where its engine answers"}`);
    return remnant;
  };
  const slots = stack.use(
    await JsonDirectory.open<PublishedSlot>(join(stateDir, "slots"), {
      ...options,
      parse: (value) => readAnySlot(value),
      onChange: (names) => subscribers.tell({ slots: names, registry: false, operator: false }),
    }),
  );
  opened.slots = slots;
  const owned = stack.move();
  return {
    slots: () => [...slots.values()].map(([, slot]) => slot),
    slot: (name) => slots.get(name),
    registry: () => {
      const registry = top.get("registry");
      return registry !== undefined && "models" in registry ? registry : emptyRegistry;
    },
    operator: () => {
      const operator = top.get("operator");
      return operator !== undefined && "heartbeat" in operator ? operator : undefined;
    },
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The operator's pen. Generations soon survive a power cut; status need not: it is observed anew. */
export async function openPublisher(stateDir: string, options: { onUnknown?: OnUnknown } = {}): Promise<Publisher> {
  const told = once(options.onUnknown);
  const slotsDir = join(stateDir, "slots");
  for (const dir of [stateDir, ...["slots", "demand", "requests"].map((name) => join(stateDir, name))]) {
    await mkdir(dir, { recursive: true });
    await removeLeftovers(dir);
  }
  await removeVoidDemand(join(stateDir, "demand"));
  /** When the directory last changed of those times at which every slot's file was there. */
  let completeMs: number | undefined;
  /** Generations that are on disk for certain, or on their way (DECISIONS 15). */
  const generations = new Map<string, number>();
  return {
    async readSlots() {
      const found: PublishedSlot[] = [];
      for (const file of await readdir(slotsDir)) {
        if (file.startsWith(".")) {
          await rm(join(slotsDir, file), { force: true }).catch(() => setAside(stateDir, join(slotsDir, file), file));
          continue;
        }
        const slot = readSlot(join(slotsDir, file), (what) => told(`${file}: ${what}`));
        if (slot !== undefined && `${slot.name}.json` === file) found.push(slot);
        else await setAside(stateDir, join(slotsDir, file), file);
      }
      return found;
    },
    async writeSlot(slot) {
      const path = join(slotsDir, `${slotNameSchema.parse(slot.name)}.json`);
      try {
        await write(path, slot);
      } catch (error) {
        if (errorCode(error) === "ENOENT") await mkdir(slotsDir, { recursive: true });
        else if (!isNoSpace(error)) throw error;
        // The history goes first: without it the rest nearly always fits where the file was.
        const { status } = slot;
        await write(
          path,
          isNoSpace(error) ? { ...slot, status: { ...status, transitions: status.transitions.slice(-1) } } : slot,
        );
      }
      if (generations.get(slot.name) === slot.generation) return;
      generations.set(slot.name, slot.generation);
      // Nobody waits for the disk: a power cut within these milliseconds costs at most one generation's number.
      void syncFile(path).catch(() => generations.delete(slot.name));
    },
    async deleteSlot(name) {
      await rm(join(slotsDir, `${slotNameSchema.parse(name)}.json`), { force: true });
      generations.delete(name);
    },
    missingSlots(names) {
      const changedMs = statSync(slotsDir, { throwIfNoEntry: false })?.mtimeMs;
      if (changedMs !== undefined && changedMs === completeMs) return [];
      const present = new Set(filesIn(slotsDir));
      const missing = [...names].filter((name) => !present.has(`${name}.json`));
      // Times of directories tick: another change may bear the time of one that is as young as this.
      const isOld = changedMs !== undefined && Math.abs(Date.now() - changedMs) > youngMs;
      completeMs = missing.length === 0 && isOld ? changedMs : undefined;
      return missing;
    },
    hasRegistry: () => existsSync(join(stateDir, "registry.json")),
    writeRegistry: (registry) => write(join(stateDir, "registry.json"), registry),
    writeOperator: (operator) => write(join(stateDir, "operator.json"), operator),
  };
}

/** What an earlier operator said of models and upstreams; undefined: nothing that can be read. */
export function readRegistry(stateDir: string): PublishedRegistry | undefined {
  try {
    return knownPart(publishedRegistrySchema, parseJson(readPlainText(join(stateDir, "registry.json"))));
  } catch {
    // Not there, or no file: it is written anew.
    return undefined;
  }
}

/** None where the directory is gone. */
function filesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** Files of gateways that were killed: nobody else removes them, and a live one writes its own every second. */
async function removeVoidDemand(dir: string): Promise<void> {
  for (const file of await readdir(dir)) {
    const path = join(dir, file);
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile() === true && Date.now() - found.mtimeMs > voidDemandMs) await rm(path, { force: true });
  }
}

const youngMs = 100;

/** Many times what makes demand void. */
const voidDemandMs = 60_000;

async function write(path: string, value: unknown): Promise<void> {
  writeJsonNow(path, JSON.stringify(value));
}

/** Blocks: once at the start, a thousand small files take a tenth of the time that they would take one by one. */
function readSlot(path: string, onUnknown: OnUnknown): PublishedSlot | undefined {
  try {
    return readPublishedSlot(JSON.parse(readPlainText(path)), onUnknown);
  } catch (error) {
    // A directory, a pipe or a link under that name is no state of ours either.
    if (error instanceof SyntaxError || error instanceof UnfitFile || errorCode(error) === "ELOOP") return undefined;
    throw error;
  }
}
