import { z } from "zod";
import { knownPart } from "./known-part.ts";
import { slotNameSchema } from "./names.ts";
import { slotSpecSchema } from "./slot.ts";
import { emptyStatus, publishedSlotSchema, type PublishedSlot } from "./status.ts";
import { processStatusSchema } from "./workload.ts";

/** Hears of what another version has published and this one does not know. */
export type OnUnknown = (what: string) => void;

const toldLimit = 200;

/** Tells each thing once: what another version publishes, it publishes again and again. */
export function once(onUnknown: OnUnknown = () => undefined): OnUnknown {
  const told = new Set<string>();
  return (what) => {
    if (told.has(what) || told.size >= toldLimit) return;
    told.add(what);
    onUnknown(what);
  };
}

/** A slot as an operator of this or another version has published it; undefined where that cannot be made out. */
export function readPublishedSlot(value: unknown, onUnknown: OnUnknown): PublishedSlot | undefined {
  return knownPart(publishedSlotSchema, value, { instead, onUnknown });
}

function instead(path: readonly PropertyKey[], whole: unknown): unknown {
  const field = path.map(String).join(".");
  if (field === "status.state") return stateOf(whole);
  // Of which nothing is assumed.
  return field === "spec.engine" ? "custom" : undefined;
}

const processesSchema = z.looseObject({ status: z.looseObject({ processes: z.array(z.looseObject({})) }) });

/** The nearest of the states that are known: what answers is used. */
function stateOf(whole: unknown): PublishedSlot["status"]["state"] {
  const processes = processesSchema.safeParse(whole).data?.status.processes ?? [];
  if (processes.some(({ role, isReady }) => role === "main" && isReady === true)) return "ready";
  return processes.length > 0 ? "starting" : "offline";
}

const remnantSchema = z.looseObject({
  name: slotNameSchema,
  revision: z.int().min(1),
  spec: z.looseObject({ enabled: z.boolean() }).optional().catch(undefined),
  status: z.looseObject({ state: z.string(), processes: z.array(z.unknown()) }),
});

/** The name that stands in a slot's state; "?" where there is none. */
export function nameIn(value: unknown): string {
  return z.looseObject({ name: slotNameSchema }).safeParse(value).data?.name ?? "?";
}

/**
 * What a gateway must act on in a slot's state that cannot be read otherwise: which revision that is, where its engine
 * answers, and whether it is to let go of it. The rest is as it was `known` before.
 */
export function readRemnant(value: unknown, known: PublishedSlot | undefined): PublishedSlot | undefined {
  const read = remnantSchema.safeParse(value).data;
  if (read === undefined) return undefined;
  const { name, revision, spec } = read;
  const processes = read.status.processes.flatMap((each) => knownPart(processStatusSchema, each) ?? []);
  const base: PublishedSlot = known ?? {
    schema: 1,
    name,
    revision,
    generation: 0,
    specHash: "",
    labels: {},
    spec: slotSpecSchema.parse({ enabled: spec?.enabled ?? true }),
    status: emptyStatus,
    plan: { reason: "Unknown", message: "another version has published what this one cannot read", steps: [] },
  };
  const state = read.status.state === "unloading" ? "unloading" : stateOf({ status: { processes } });
  return { ...base, revision, status: { ...base.status, state, processes } };
}
