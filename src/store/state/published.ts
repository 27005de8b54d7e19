import { join } from "node:path";
import { knownPart } from "../../api/known-part.ts";
import {
  publishedOperatorSchema,
  publishedRegistrySchema,
  type PublishedOperator,
  type PublishedRegistry,
  type PublishedSlot,
} from "../../api/status.ts";
import { readText } from "../../lib/read-text.ts";
import { JsonDirectory } from "../../lib/json-directory.ts";
import { parseJson } from "../../lib/json.ts";
import { Subscribers } from "../../lib/subscribers.ts";
import { readPlainText } from "../../lib/small-file.ts";
import { nameIn, once, readPublishedSlot, readRemnant, type OnUnknown } from "../../api/published-slot.ts";
import type { PublishedChange, PublishedStore } from "../store.ts";
import { LivenessWatch, type Clocks, type Liveness } from "./liveness.ts";

const emptyRegistry: PublishedRegistry = { schema: 1, models: [], upstreams: [], resources: [] };

/** Reads the operator's published state and follows it. Needs no operator: an absent state is an empty one. */
export async function openPublished(
  stateDir: string,
  options: { sweepMs?: number; onUnknown?: OnUnknown } & Clocks = {},
): Promise<PublishedStore> {
  const report = once(options.onUnknown);
  const subscribers = new Subscribers<[change: PublishedChange]>();
  const liveness = new LivenessWatch(options);
  const opened: { slots?: JsonDirectory<PublishedSlot> } = {};
  /** The slots were read after the operator said that it has published all of them. */
  let isComplete = false;
  await using stack = new AsyncDisposableStack();
  const top = stack.use(
    await JsonDirectory.open<PublishedOperator | PublishedRegistry>(stateDir, {
      ...options,
      include: (file) => file === "operator.json" || file === "registry.json",
      parse: (value) =>
        knownPart(publishedOperatorSchema, value) ??
        knownPart(publishedRegistrySchema, value, { onUnknown: (what) => report(`registry: ${what}`) }),
      onChange: (names) => {
        noteOperator();
        const change = { slots: [], registry: names.includes("registry"), operator: names.includes("operator") };
        if (isComplete || opened.slots === undefined || !isSettled()) subscribers.notify(change);
        else void complete(opened.slots).then(() => subscribers.notify(change));
      },
    }),
  );
  const foundOperator = (): PublishedOperator | undefined => {
    const found = top.get("operator");
    return found !== undefined && "heartbeat" in found ? found : undefined;
  };
  const isSettled = (): boolean => foundOperator()?.isSettled === true;
  /** Events of the two directories come in any order: a slot may be written, and not read yet. */
  async function complete(directory: JsonDirectory<PublishedSlot>): Promise<void> {
    await directory.scan();
    isComplete = true;
  }
  /** A slot's file may be missing: somebody deleted it. */
  const hasEverySlot = ({ slotCount }: PublishedOperator): boolean =>
    isComplete && [...(opened.slots?.values() ?? [])].length >= slotCount;
  const operator = (): PublishedOperator | undefined => {
    const found = foundOperator();
    return found?.isSettled === true && !hasEverySlot(found) ? { ...found, isSettled: false } : found;
  };
  function noteOperator(): void {
    const found = operator();
    liveness.note(new Map(found === undefined ? [] : [["operator", found]]));
  }
  noteOperator();
  const wasSettled = isSettled();
  const readAnySlot = (value: unknown): PublishedSlot | undefined => {
    const read = readPublishedSlot(value, (what) => report(`slot ${nameIn(value)}: ${what}`));
    if (read !== undefined) return read;
    const remnant = readRemnant(value, opened.slots?.get(nameIn(value)));
    report(`slot ${nameIn(value)}: ${remnant === undefined ? "nothing" : "no more than where its engine answers"}`);
    return remnant;
  };
  const slots = stack.use(
    await JsonDirectory.open<PublishedSlot>(join(stateDir, "slots"), {
      ...options,
      parse: (value) => readAnySlot(value),
      onChange: (names) => subscribers.notify({ slots: names, registry: false, operator: false }),
    }),
  );
  opened.slots = slots;
  if (wasSettled) isComplete = true;
  else if (isSettled()) await complete(slots);
  const owned = stack.move();
  return {
    slots: () => [...slots.values()].map(([, slot]) => slot),
    slot: (name) => slots.get(name),
    registry: () => {
      const registry = top.get("registry");
      return registry !== undefined && "models" in registry ? registry : emptyRegistry;
    },
    refreshRegistry: () => top.scan(),
    operator,
    operatorLiveness: () => {
      const found = operator();
      return found === undefined ? "absent" : liveness.of("operator", found);
    },
    watch: (onChange) => subscribers.add(onChange),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** An earlier operator's registry of models and upstreams; undefined without a readable one. */
export function readRegistry(stateDir: string): PublishedRegistry | undefined {
  try {
    return knownPart(publishedRegistrySchema, parseJson(readPlainText(join(stateDir, "registry.json"))));
  } catch {
    // Missing, or no file: it is written again.
    return undefined;
  }
}

/** The record of an operator, in one read; undefined without a readable one. */
export async function readOperator(
  stateDir: string,
): Promise<{ readonly record: PublishedOperator; readonly liveness: Liveness } | undefined> {
  const text = await readText(join(stateDir, "operator.json")).catch(() => undefined);
  const record = knownPart(publishedOperatorSchema, parseJson(text ?? ""));
  return record && { record, liveness: new LivenessWatch().of("operator", record) };
}
