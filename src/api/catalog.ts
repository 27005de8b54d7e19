import { z } from "zod";
import { modelRules, modelSpecSchema } from "./model.ts";
import { engineKinds, modelRefSchema } from "./names.ts";

const count = z.int().min(1);

/** The lengths of a model of llama.cpp's, from which its memory follows while no file of it is here. */
const catalogShapeSchema = z.strictObject({
  architecture: z.string(),
  layers: count,
  width: count,
  heads: count,
  keyValueHeads: count,
  headWidth: count,
  feedForward: count,
  vocabulary: count,
  isTied: z.boolean(),
  window: z.strictObject({ tokens: count, every: count }).optional().describe("All but every n-th layer have it"),
  isEncoder: z.boolean().default(false).describe("It keeps nothing of earlier tokens"),
});
export type CatalogShape = z.output<typeof catalogShapeSchema>;

const unverifiable = ["source", "aboutBytes", "license", "licenseUrl", "memory", "shape"] as const;

/** One document of `manifests/catalog/`: a Model, and what only a catalogue says of it. */
export const catalogEntrySchema = z
  .strictObject({
    apiVersion: z.literal("berth.dev/v1alpha1"),
    kind: z.literal("Model"),
    metadata: z.strictObject({ name: modelRefSchema }),
    spec: modelSpecSchema,
    catalog: z.strictObject({
      title: z.string().min(1),
      engine: z.enum(engineKinds),
      aboutBytes: count.describe("The size that its publisher tells, rounded: nothing is checked against it"),
      mustAccept: z.boolean().describe("Its licence forbids some use, such as commercial use: a person must accept it"),
      unverified: z
        .array(z.enum(unverifiable))
        .describe("What nobody compared with the publisher's page when this was written"),
      checked: z
        .strictObject({ page: z.url(), date: z.iso.date(), fields: z.array(z.enum(unverifiable)).min(1) })
        .optional()
        .describe("What was compared with a stored copy of the publisher's page; the file itself was not fetched"),
      note: z.string().optional(),
      shape: catalogShapeSchema.optional(),
    }),
  })
  .superRefine(({ spec, catalog }, context) => {
    for (const { path, message } of modelRules(spec)) {
      context.addIssue({ code: "custom", path: ["spec", ...path], message });
    }
    const doubtful = catalog.checked?.fields.filter((field) => catalog.unverified.includes(field)) ?? [];
    for (const field of doubtful)
      context.addIssue({ code: "custom", path: ["catalog", "checked"], message: `${field} is in unverified too` });
    for (const key of ["license", "licenseUrl", "engines", "capabilities"] as const) {
      if (spec[key] === undefined) context.addIssue({ code: "custom", path: ["spec", key], message: "is missing" });
    }
  });
export type CatalogEntry = z.output<typeof catalogEntrySchema>;
