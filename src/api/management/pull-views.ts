import { z } from "zod";
import { modelSourceSchema, sha256Schema, wantedFileSchema } from "../model.ts";
import { modelRefSchema } from "../names.ts";
import { pullStates } from "../pull.ts";
import { typedNameSchema } from "./model-choices-view.ts";

/** A request to fetch a model, which is named by one of `model`, `source` and `files`. */
export const pullBodySchema = z
  .strictObject({
    model: typedNameSchema
      .optional()
      .describe("A ref of the registry or of the catalogue, or a name as `GET /api/models/hub` reads it"),
    source: modelSourceSchema.optional().describe("hf://owner/repo/file[@revision] or https://…"),
    files: z
      .array(wantedFileSchema.extend({ source: modelSourceSchema }))
      .min(1)
      .max(1000)
      .optional()
      .describe("Several files of one model, e.g. shards or a projector"),
    ref: modelRefSchema.optional().describe("The model's ref; absent: the first file's name"),
    sha256: sha256Schema.optional().describe("Of the one source"),
    accept_license: z.boolean().optional().describe("Accepts the licence of a model of the catalogue that requires it"),
  })
  // The handler explains in its error that exactly one of the three is needed.
  .meta({ oneOf: [{ required: ["model"] }, { required: ["source"] }, { required: ["files"] }] });
export type PullBody = z.output<typeof pullBodySchema>;

const count = z.int().min(0);

export const pullViewSchema = z.strictObject({
  id: z.string(),
  model: z.string(),
  state: z.enum(pullStates),
  sources: z.array(z.string()),
  for_slot: z.boolean().describe("A slot needs it: it can be paused, not cancelled"),
  is_check: z
    .boolean()
    .describe("The files of the model are read and compared with their checksums: it can be cancelled, not paused"),
  bytes_done: count,
  bytes_total: count.nullable(),
  bytes_per_second: count.nullable(),
  eta_seconds: count.nullable(),
  stalls: count.describe("How often a server has sent nothing for 30 s"),
  requested_at: z.string().nullable(),
  ended_at: z.string().nullable(),
  retry_at: z.string().nullable().describe("When a failed attempt is followed by another one"),
  error: z
    .strictObject({ code: z.string(), reason: z.string(), message: z.string() })
    .nullable()
    .describe("Of a pull that runs or waits: why no byte comes, while it is tried again"),
});
export type PullView = z.output<typeof pullViewSchema>;
