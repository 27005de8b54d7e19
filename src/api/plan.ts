import { z } from "zod";
import { processRoles } from "./names.ts";

/** One thing the operator does to a slot. Acting on it takes no further decision. */
export const stepSchema = z.discriminatedUnion("do", [
  /** Wait until every live gateway has seen `unloading` and let go, at most until `deadline`. */
  z.strictObject({ do: z.literal("drain"), reason: z.string(), deadline: z.iso.datetime() }),
  z.strictObject({ do: z.literal("stop"), role: z.enum(processRoles), reason: z.string() }),
  z.strictObject({
    do: z.literal("start"),
    role: z.enum(processRoles),
    port: z.int(),
    command: z.string(),
    reason: z.string(),
  }),
  /** Put right what somebody else did to a running container, without a restart. */
  z.strictObject({ do: z.literal("repair"), role: z.enum(processRoles), reason: z.string() }),
  z.strictObject({ do: z.literal("warm"), role: z.enum(processRoles), reason: z.string() }),
  z.strictObject({ do: z.literal("wait"), reason: z.string(), until: z.iso.datetime().optional() }),
]);
export type Step = z.infer<typeof stepSchema>;

/** What a reconcile decided and why; printed by `berth slot plan`, asserted whole in tests. */
export const planSchema = z.strictObject({
  /** As the condition that it leads to gives it, e.g. "Disabled". */
  reason: z.string(),
  message: z.string(),
  steps: z.array(stepSchema),
});
export type Plan = z.infer<typeof planSchema>;
