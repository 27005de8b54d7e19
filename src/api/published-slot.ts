import { z } from "zod";
import { knownPart } from "./known-part.ts";
import { slotNameSchema } from "./names.ts";
import { isSameProcess, type ProcessRef } from "./process-ref.ts";
import { slotSpecSchema } from "./slot.ts";
import { emptyStatus, publishedSlotSchema, type PublishedSlot } from "./status.ts";
import { processStatusSchema } from "./workload.ts";

/** Called with each value that another version has published and this version does not know. */
export type OnUnknown = (what: string) => void;

const reportedLimit = 200;

/** Reports each value once: another version publishes it again and again. */
export function once(onUnknown: OnUnknown = () => undefined): OnUnknown {
  const reported = new Set<string>();
  return (what) => {
    if (reported.has(what) || reported.size >= reportedLimit) return;
    reported.add(what);
    onUnknown(what);
  };
}

/** A slot that an operator of this or another version has published; undefined where it cannot be read. */
export function readPublishedSlot(value: unknown, onUnknown: OnUnknown): PublishedSlot | undefined {
  return knownPart(publishedSlotSchema, value, { instead, onUnknown });
}

function instead(path: readonly PropertyKey[], whole: unknown): unknown {
  const field = path.map(String).join(".");
  if (field === "status.state") return stateOf(whole);
  if (field === "status.model.origin") return "spec";
  // The engine kind without any assumptions.
  return field === "spec.engine" ? "custom" : undefined;
}

/** The bearer token of a process, where it has one. */
export function bearerFor(
  slot: Pick<PublishedSlot, "bearerList"> | undefined,
  process: ProcessRef,
): { readonly bearer?: string } {
  const bearer = slot?.bearerList?.find((each) => isSameProcess(each, process))?.bearer;
  return bearer === undefined ? {} : { bearer };
}

const processesSchema = z.looseObject({ status: z.looseObject({ processes: z.array(z.looseObject({})) }) });

/** The nearest known state: an endpoint that answers is used. */
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

/** The name in a slot's state; "?" without one. */
export function nameIn(value: unknown): string {
  return z.looseObject({ name: slotNameSchema }).safeParse(value).data?.name ?? "?";
}

/**
 * The part of an otherwise unreadable slot's state that a gateway must act on: its revision, its endpoints, and whether
 * it is unloading. The rest stays as in `known`.
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
