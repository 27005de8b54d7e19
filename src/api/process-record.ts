import { z } from "zod";
import { processRoles, slotNameSchema } from "./names.ts";
import { exitSchema } from "./workload.ts";

/** What is remembered of an engine process beyond the life of an operator. */
export const recordSchema = z.strictObject({
  schema: z.literal(1),
  instance: z.string(),
  slot: slotNameSchema,
  role: z.enum(processRoles),
  hash: z.string(),
  port: z.int(),
  /** Names one start; its label carries the same. */
  start: z.string(),
  bootId: z.string(),
  pidNamespace: z.string(),
  pid: z.int(),
  startTime: z.string(),
  startedAt: z.iso.datetime(),
  /** Where in the log what this engine printed begins, in bytes. */
  logOffset: z.int().min(0),
  exit: exitSchema.optional(),
});
export type ProcessRecord = z.infer<typeof recordSchema>;
