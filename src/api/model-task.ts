import { z } from "zod";
import { modelRecordSchema } from "./model.ts";
import { modelRefSchema } from "./names.ts";

const common = { schema: z.literal(1), id: z.uuid(), requestedAt: z.iso.datetime() };
const bytes = z.int().min(0);

/** A task of the operator on the files of models, requested over the API: a file in `<state>/model-tasks/`. */
export const modelTaskSchema = z.discriminatedUnion("kind", [
  z.strictObject({
    ...common,
    kind: z.literal("remove"),
    ref: modelRefSchema,
    /** Absolute paths outside the store of fetched files. */
    files: z.array(z.string()),
    /** The tag of a model in FastFlowLM's store. */
    flm: z.string().optional(),
    isDryRun: z.boolean(),
  }),
  z.strictObject({ ...common, kind: z.literal("collect"), isDryRun: z.boolean() }),
  z.strictObject({ ...common, kind: z.literal("scan"), directories: z.array(z.string()).max(100) }),
  /** The models in a repository of the hub. */
  z.strictObject({ ...common, kind: z.literal("hub"), owner: z.string(), repo: z.string(), revision: z.string() }),
]);
export type ModelTask = z.output<typeof modelTaskSchema>;

/** A file that stays, and why. */
const keptFileSchema = z.strictObject({ path: z.string(), reason: z.string() });
export type KeptFile = z.output<typeof keptFileSchema>;

export const leftoverKinds = ["blob", "partial", "directory"] as const;

export const leftoverSchema = z.strictObject({
  path: z.string(),
  kind: z.enum(leftoverKinds),
  sizeBytes: bytes,
  /** The source of a file that was not fetched completely. */
  source: z.string().optional(),
});
/** A file or directory that no ref needs. */
export type Leftover = z.output<typeof leftoverSchema>;

export const foundModelSchema = modelRecordSchema
  .pick({
    ref: true,
    files: true,
    projectorPath: true,
    sizeBytes: true,
    capabilities: true,
    architecture: true,
    quantization: true,
    contextLength: true,
    message: true,
  })
  .extend({
    /** `registered`: the registry has these files; `taken`: it has another model of that ref. */
    state: z.enum(["new", "registered", "taken", "invalid"]),
  });
/** A model that a scan has found. */
export type FoundModel = z.output<typeof foundModelSchema>;

export const hubModelSchema = z.strictObject({
  /** Paths in the repository; the shards of a model in order. */
  paths: z.array(z.string()).min(1),
  /** Read from the file's name. */
  quantization: z.string().optional(),
  sizeBytes: bytes,
  /** Not a model, but what lets a model of that repository see pictures. */
  isProjector: z.literal(true).optional(),
});
/** A model in a repository of the hub, by the names of its files. */
export type HubModel = z.output<typeof hubModelSchema>;

export const hubListingSchema = z.strictObject({
  /** The smallest first, projectors last. */
  models: z.array(hubModelSchema),
  /** Further models, which are not listed. */
  leftOut: z.int().min(0),
});
export type HubListing = z.output<typeof hubListingSchema>;

/** The operator's answer: `<state>/model-answers/<id>.json`, until who asked has read it. */
export const modelTaskAnswerSchema = z.strictObject({
  schema: z.literal(1),
  answers: z.uuid(),
  answeredAt: z.iso.datetime(),
  /** The task failed, or only a part of it was done. */
  error: z.string().optional(),
  /** The kind of that error, where it has one. */
  reason: z.string().optional(),
  freedBytes: bytes.optional(),
  kept: z.array(keptFileSchema).optional(),
  leftovers: z.array(leftoverSchema).optional(),
  models: z.array(foundModelSchema).optional(),
  hub: hubListingSchema.optional(),
});
export type ModelTaskAnswer = z.output<typeof modelTaskAnswerSchema>;
