import { z } from "zod";
import { foundModelSchema, leftoverKinds } from "../model-task.ts";
import { modelViewSchema } from "./views.ts";

const bytes = z.int().min(0);
const kept = z.array(z.strictObject({ path: z.string(), reason: z.string() })).describe("Files that stay, and why");

/** A removed model. */
export const modelRemovalSchema = modelViewSchema.extend({
  freed_bytes: bytes
    .nullable()
    .describe("Of files that no other model has; null: none was to be deleted, or no operator has answered yet"),
  kept,
});
export type ModelRemoval = z.output<typeof modelRemovalSchema>;

export const collectionViewSchema = z.strictObject({
  dry_run: z.boolean(),
  bytes: bytes.describe("Of all files together"),
  files: z.array(
    z.strictObject({
      path: z.string(),
      kind: z
        .enum(leftoverKinds)
        .describe(
          "blob: a content without a model; partial: a file that did not come whole; directory: links to blobs",
        ),
      size_bytes: bytes,
      source: z.string().nullable(),
    }),
  ),
  kept,
});

export const scanBodySchema = z.strictObject({
  directories: z
    .array(z.string().startsWith("/", "an absolute path"))
    .max(100)
    .optional()
    .describe("Absolute paths on the operator's machine; absent: the models directory"),
  write: z.boolean().optional().describe("Writes a manifest for each new model"),
});
export type ScanBody = z.output<typeof scanBodySchema>;

const { ref, files, capabilities, state } = foundModelSchema.shape;

export const scanViewSchema = z.strictObject({
  object: z.literal("list"),
  data: z.array(
    z.strictObject({
      id: ref,
      state: state.describe(
        "new: can be declared; registered: is a model already; taken: another model has its ref; invalid: see message",
      ),
      files: files.unwrap(),
      size_bytes: bytes.nullable(),
      capabilities: capabilities.unwrap(),
      architecture: z.string().nullable(),
      quantization: z.string().nullable(),
      context_length: z.int().nullable(),
      message: z.string().nullable(),
      manifest: z
        .strictObject({ name: z.string(), spec: z.record(z.string(), z.json()), written: z.boolean() })
        .nullable()
        .describe("What declares it, in models/NAME.yaml; null: nothing is to be declared"),
    }),
  ),
});
export type ScanView = z.output<typeof scanViewSchema>;
