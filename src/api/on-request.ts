import { z } from "zod";
import { modelRefSchema } from "./names.ts";

const time = z.iso.datetime();

/** The last failure to load one of the models that requests choose from, while another one is loaded. */
const failedRefSchema = z.strictObject({
  ref: modelRefSchema,
  reason: z.string(),
  message: z.string(),
  /** In a row. */
  failures: z.int().min(1),
  at: time,
  /** Requests are refused until then; the next one after it loads the model again. */
  retryAt: time,
  /** Only a person can mend it. */
  isStalled: z.boolean().default(false),
});
export type FailedRef = z.infer<typeof failedRefSchema>;

/** Which models requests may choose, and the chosen one. The model of the engine that runs is `status.model.ref`. */
export const onRequestSchema = z.strictObject({
  /** The model that the slot's own name and its aliases mean. */
  usual: modelRefSchema,
  /** All models that a request may name, the usual one among them. */
  refs: z.array(modelRefSchema),
  chosen: modelRefSchema,
  /** When it was chosen. */
  since: time,
  failed: z.array(failedRefSchema).default([]),
});
export type OnRequest = z.infer<typeof onRequestSchema>;

/** A gateway's requests that name one ref of a slot. */
export const demandOfRefSchema = z.strictObject({
  ref: modelRefSchema,
  /** Requests that wait. */
  held: z.int().min(0),
  inFlight: z.int().min(0),
  /** When the oldest of those that wait came. */
  waitingSince: time.optional(),
});
