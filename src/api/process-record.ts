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
  /** Another one for every start, random, and known to the engine alone, which carries it in its label. */
  start: z.string(),
  /** What it wants of whoever asks it; absent: it asks for nothing. */
  bearer: z.string().optional(),
  /** The user that it was started as; absent in records of versions that did not note it. */
  uid: z.int().optional(),
  bootId: z.string(),
  pidNamespace: z.string(),
  /** 0: it could not be started. */
  pid: z.int(),
  startTime: z.string(),
  startedAt: z.iso.datetime(),
  /** Where in its log, in bytes, this engine's own lines begin. */
  logOffset: z.int(),
  exit: exitSchema.optional(),
});
export type ProcessRecord = z.infer<typeof recordSchema>;
