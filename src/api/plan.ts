import { z } from "zod";
import { processRoles } from "./names.ts";
import { processName, type ProcessRef } from "./process-ref.ts";

/** Which process of the slot; `ordinal` absent: 0. */
const processFields = { role: z.enum(processRoles), ordinal: z.int().min(0).optional() } as const;

/** One action of the operator on a slot. Acting on it takes no further decision. */
export const stepSchema = z.discriminatedUnion("do", [
  /** Wait until every live gateway has let go of the process, at most until `deadline`. Without a role: of the slot. */
  z.strictObject({
    do: z.literal("drain"),
    role: processFields.role.optional(),
    ordinal: processFields.ordinal,
    reason: z.string(),
    /** Absent: requests in flight are waited for, however long they take. */
    deadline: z.iso.datetime().optional(),
  }),
  /** Measure the memory: what is free on the devices now, or what the slot's processes hold. */
  z.strictObject({ do: z.literal("measure"), of: z.enum(["devices", "processes"]), reason: z.string() }),
  /** Read the header of a model that is not on this machine: whether the model fits decides whether it is fetched. */
  z.strictObject({ do: z.literal("readHeader"), ...processFields, reason: z.string() }),
  /** Ask the engine's own program for the memory that a start needs, without loading anything. */
  z.strictObject({ do: z.literal("estimate"), reason: z.string() }),
  /** Record the measured memory of the slot's processes: the next start needs that. */
  z.strictObject({ do: z.literal("record"), reason: z.string() }),
  /** Begin to fetch what the process needs and is not here. */
  z.strictObject({ do: z.literal("fetch"), ...processFields, reason: z.string() }),
  /** Note the digest of an image that was named without one: from now on it is that one. */
  z.strictObject({ do: z.literal("pin"), image: z.string(), digest: z.string(), reason: z.string() }),
  /** Lease the ports of what is started next: all, or none of them. */
  z.strictObject({
    do: z.literal("lease"),
    ports: z.array(z.strictObject({ ...processFields, port: z.int() })),
    reason: z.string(),
  }),
  z.strictObject({
    do: z.literal("stop"),
    ...processFields,
    reason: z.string(),
    /** The engine saves the context of its prompts first. */
    savesContext: z.literal(true).optional(),
  }),
  z.strictObject({
    do: z.literal("start"),
    ...processFields,
    port: z.int(),
    command: z.string(),
    reason: z.string(),
  }),
  /** Put right what somebody else did to a running container, without a restart. */
  z.strictObject({ do: z.literal("repair"), ...processFields, reason: z.string() }),
  z.strictObject({ do: z.literal("warm"), ...processFields, reason: z.string() }),
  z.strictObject({ do: z.literal("wait"), reason: z.string(), until: z.iso.datetime().optional() }),
]);
export type Step = z.infer<typeof stepSchema>;

/** A process as a step names it. */
export function stepProcess({ role, ordinal }: ProcessRef): Pick<Extract<Step, { do: "stop" }>, "role" | "ordinal"> {
  return ordinal === 0 ? { role } : { role, ordinal };
}

/** The process that a step names. */
export function processOf({ role, ordinal = 0 }: ReturnType<typeof stepProcess>): ProcessRef {
  return { role, ordinal };
}

/** The name of the process that a step is about; undefined where it is about the slot. */
export function processIn(step: Step): string | undefined {
  if (!("role" in step) || step.role === undefined) return undefined;
  return processName({ role: step.role, ordinal: step.ordinal ?? 0 });
}

/** The decision of a reconcile with its reasons; printed by `berth slot plan`, asserted whole in tests. */
export const planSchema = z.strictObject({
  /** The reason of the condition that it leads to, e.g. "Disabled". */
  reason: z.string(),
  message: z.string(),
  steps: z.array(stepSchema),
});
export type Plan = z.infer<typeof planSchema>;
