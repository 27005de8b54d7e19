import { z } from "zod";

const count = z.int().min(0);

/** A text by which a person names a model: longer than any address that a browser shows. */
export const typedNameSchema = z.string().min(1).max(2048);

export const modelChoiceSchema = z.strictObject({
  name: z.string().describe("Pulls this choice: POST /api/models/pull {model: NAME}"),
  from: z.enum(["registry", "catalog", "hub", "address"]).describe("Who knows it"),
  quantization: z.string().nullable().describe("Read from the file's name, or as the catalogue says"),
  sources: z.array(z.string()).describe("Of its files, the shards of a model in order"),
  size_bytes: count.nullable().describe("Null: not known before the pull"),
  is_projector: z.boolean().describe("No model: what lets a model of that repository see pictures"),
  fit: z
    .strictObject({
      verdict: z.enum(["fits", "fits_with", "does_not_fit", "unknown"]),
      message: z.string(),
      need_bytes: count.nullable(),
      budget_bytes: count.nullable(),
    })
    .nullable()
    .describe("Whether this machine can hold it; of a hub's file by its size alone; null: not known"),
});
/** A model that a typed name may stand for. */
export type ModelChoice = z.output<typeof modelChoiceSchema>;

export const modelChoicesSchema = z.strictObject({
  object: z.literal("list"),
  data: z.array(modelChoiceSchema).describe("One: the name is clear"),
  repository: z.string().nullable().describe("The repository of the hub that was listed; null: none was"),
  left_out: count.describe("Further models of the repository, which are not listed"),
});
export type ModelChoices = z.output<typeof modelChoicesSchema>;
