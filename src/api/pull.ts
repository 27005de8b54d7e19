import { z } from "zod";
import { wantedFileSchema } from "./model.ts";
import { modelRefSchema } from "./names.ts";

export const pullIdSchema = z.string().regex(/^[a-z0-9][a-z0-9-]{0,63}$/, "lower-case letters, digits and dashes");

/** A request over the API to fetch a model: `<state>/pull-requests/<id>.json`, until the operator has completed it. */
export const pullRequestSchema = z.strictObject({
  schema: z.literal(1),
  id: pullIdSchema,
  ref: modelRefSchema,
  files: z.array(wantedFileSchema).min(1),
  /** The size of all files together, where that is declared. */
  sizeBytes: z.int().min(0).optional(),
  /** Everybody may use the API that it came over: addresses of this machine are refused. */
  isOpen: z.boolean(),
  /** `remove`: its files are deleted, unless another ref has them too. `verify`: they are read, and compared. */
  action: z.enum(["run", "pause", "cancel", "remove", "verify"]),
  requestedAt: z.iso.datetime(),
});
export type PullRequest = z.output<typeof pullRequestSchema>;

export const pullStates = ["queued", "running", "paused", "completed", "failed", "cancelled"] as const;

/** How one pull stands, as the operator publishes it. */
export const pullStatusSchema = z.strictObject({
  id: pullIdSchema,
  ref: modelRefSchema,
  state: z.enum(pullStates),
  files: z.array(wantedFileSchema),
  sizeBytes: z.int().min(0).optional(),
  /** The model's files are read and compared, and nothing is fetched. */
  isCheck: z.literal(true).optional(),
  /** A slot needs it; absent: somebody has asked for it. */
  isForSlot: z.literal(true).optional(),
  /** The slots that want it now. */
  slots: z.array(z.string()).optional(),
  bytesDone: z.int().min(0),
  bytesTotal: z.int().min(0).optional(),
  bytesPerSecond: z.int().min(0).optional(),
  stalls: z.int().min(0).default(0),
  requestedAt: z.iso.datetime().optional(),
  endedAt: z.iso.datetime().optional(),
  /** When a failed attempt is followed by another one. */
  retryAt: z.iso.datetime().optional(),
  error: z.strictObject({ reason: z.string(), message: z.string() }).optional(),
});
export type PullStatus = z.output<typeof pullStatusSchema>;

/** `<state>/pulls/status.json`: those under way, and those that have ended last. */
export const publishedPullsSchema = z.strictObject({ schema: z.literal(1), pulls: z.array(pullStatusSchema) });
export type PublishedPulls = z.output<typeof publishedPullsSchema>;
