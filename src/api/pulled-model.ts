import { z } from "zod";
import { sha256Schema } from "./model.ts";
import { modelRefSchema } from "./names.ts";

/** The fetched files of one ref: a state file of the models directory, `.berth/refs/<ref>.json`. */
export const pulledModelSchema = z.strictObject({
  schema: z.literal(1),
  ref: modelRefSchema,
  /** In the order of the manifest. */
  files: z
    .array(
      z.strictObject({
        /** As the manifest or the request wrote it. */
        source: z.string(),
        /** In the ref's own directory. */
        name: z.string(),
        sha256: sha256Schema,
        sizeBytes: z.int().min(0),
        /** The commit of the hub's repository that it came from. */
        commit: z.string().optional(),
      }),
    )
    .min(1),
  pulledAt: z.iso.datetime(),
  /** The contents of the files may not survive a power cut yet. */
  isUnsynced: z.literal(true).optional(),
});
export type PulledModel = z.output<typeof pulledModelSchema>;
export type PulledFile = PulledModel["files"][number];
