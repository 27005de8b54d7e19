import { z } from "zod";
import { sha256Schema } from "./model.ts";

/** A file is fetched in ranges of this length, each over one connection; the last range may be shorter. */
export const rangeBytes = 32 * 1024 * 1024;

const contentSchema = z.strictObject({
  source: z.string(),
  sizeBytes: z.int().min(0),
  /** ETag or time of the last change; absent: the server gives none. */
  validator: z.string().optional(),
  sha256: sha256Schema.optional(),
});

/** The content of which a partial file is a part. */
export type Content = Readonly<z.output<typeof contentSchema>>;

/** A record of a partial file, beside its bytes: a state file of the models directory, `.berth/partial/<source>/record.json`. */
export const partialRecordSchema = z.strictObject({
  schema: z.literal(1),
  rangeBytes: z.literal(rangeBytes),
  content: contentSchema,
  /** For each range, how many bytes from its beginning are in the file, also after a power cut. */
  marks: z.array(z.int().min(0).max(rangeBytes)).readonly(),
  /** The SHA-256 of the whole file, which is in the store now, while other files of the model are missing. */
  digest: sha256Schema.optional(),
});

/** A record of a partial file, beside its bytes. */
export type PartialRecord = Readonly<Omit<z.output<typeof partialRecordSchema>, "schema" | "rangeBytes">>;
