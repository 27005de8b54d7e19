import { z } from "zod";
import { modelRefSchema } from "./names.ts";

/** One file that an engine has written: the context of one of its places. */
const savedPlaceSchema = z.strictObject({
  place: z.int().min(0),
  /** In the directory of its process. */
  file: z.string().regex(/^[a-z0-9-]{1,64}\.bin$/),
  bytes: z.int().min(1),
  /** As the engine counted them. */
  tokens: z.int().min(1),
  /** Identity of the file: what somebody has written since is never given to an engine. */
  inode: z.number(),
  modifiedMs: z.number(),
});
export type SavedPlace = z.infer<typeof savedPlaceSchema>;

/** The context that one engine left when it was unloaded. */
const savedContextSchema = z.strictObject({
  /** Hash of everything that must be equal for an engine to read it. */
  key: z.string(),
  ref: modelRefSchema,
  savedAt: z.iso.datetime(),
  places: z.array(savedPlaceSchema).min(1),
});
export type SavedContext = z.infer<typeof savedContextSchema>;

/** `<state>/contexts/SLOT/PROCESS.json`: what one process of a slot has saved. Only the operator writes it. */
export const savedContextsSchema = z.strictObject({
  schema: z.literal(1),
  /** Files are not synced to the disk: they are valid until the machine is restarted. */
  boot: z.string(),
  /** The engine that was started last, and the key of what it saves. */
  running: z
    .strictObject({
      hash: z.string(),
      key: z.string(),
      ref: modelRefSchema,
      /** Its user is not known here. */
      isContainer: z.boolean().default(false),
    })
    .optional(),
  saved: z.array(savedContextSchema),
});
export type SavedContexts = z.infer<typeof savedContextsSchema>;
