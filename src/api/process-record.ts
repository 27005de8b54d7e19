import { z } from "zod";
import { processRoles, slotNameSchema } from "./names.ts";
import { exitSchema } from "./workload.ts";

/** The record of an engine process, which outlives an operator. */
export const recordSchema = z.strictObject({
  schema: z.literal(1),
  instance: z.string(),
  slot: slotNameSchema,
  role: z.enum(processRoles),
  ordinal: z.int().min(0),
  hash: z.string(),
  port: z.int(),
  /** A random secret per start, known to the operator and to the engine, which carries it in its label. */
  start: z.string(),
  /** The bearer that the engine requires of its clients; absent: none. */
  bearer: z.string().optional(),
  /** The user that runs it. */
  uid: z.int(),
  bootId: z.string(),
  pidNamespace: z.string(),
  /** 0: the start failed. */
  pid: z.int(),
  startTime: z.string(),
  startedAt: z.iso.datetime(),
  /** The offset in its log, in bytes, where this engine's own lines begin. */
  logOffset: z.int(),
  exit: exitSchema.optional(),
});
export type ProcessRecord = z.infer<typeof recordSchema>;
