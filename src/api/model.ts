import { z } from "zod";
import { backends, engineKinds, modelCapabilities, modelRefSchema } from "./names.ts";

export const sha256Schema = z.string().regex(/^[0-9a-f]{64}$/, "64 lower-case hexadecimal digits");

/** Where a model's bytes come from. */
export const modelSourceSchema = z
  .string()
  .regex(/^(hf|https|file|flm|voice):\/\/.+$/, "starts with hf://, https://, file://, flm:// or voice://");

export const modelSpecSchema = z.strictObject({
  ref: modelRefSchema.optional().describe("The ref; absent: the resource's name"),
  source: modelSourceSchema.optional().describe("Where the bytes come from; today only file:///…"),
  files: z
    .array(
      z.strictObject({
        source: modelSourceSchema.describe("Where this file's bytes come from"),
        sha256: sha256Schema.optional().describe("Of this file; not in this version"),
        as: z.string().min(1).optional().describe("File name on disk; not in this version"),
      }),
    )
    .min(1)
    .optional()
    .describe("Several files, e.g. shards or a projector"),
  sha256: sha256Schema.optional().describe("Shown, and a reason to load anew; this version does not compute it"),
  sizeBytes: z.int().min(0).optional().describe("Checked when given, recorded when not"),
  engines: z.array(z.enum(engineKinds)).optional().describe("Engines that may serve it; absent: all"),
  backends: z.array(z.enum(backends)).optional().describe("Backends that may serve it; not in this version"),
  capabilities: z.array(z.enum(modelCapabilities)).optional().describe("What it can do; absent: read from the file"),
  license: z.string().optional().describe("Shown before a pull"),
  licenseUrl: z.url().optional().describe("Where the licence can be read"),
  acceptLicense: z.boolean().default(false).describe("Accepts a non-commercial licence; not in this version"),
  contextLength: z.int().min(1).optional().describe("Tokens; absent: read from the file"),
  parameters: z.int().min(0).optional().describe("Number of weights; absent: read from the file"),
  quantization: z.string().optional().describe("Such as Q4_K_M; absent: read from the file"),
  family: z.string().optional().describe("Architecture; absent: read from the file"),
  minVramBytes: z.int().min(0).optional().describe("Input to the fit check; not in this version"),
  memoryBytes: z.int().min(0).optional().describe("Input to the fit check; not in this version"),
  default: z
    .record(z.string(), z.json())
    .default({})
    .describe("Request or launch defaults for slots that hold it; not in this version"),
});
export type ModelSpec = z.output<typeof modelSpecSchema>;

/** The rules that hold between fields of a Model. Empty when all hold. */
export function modelRules(spec: ModelSpec): { path: string[]; message: string }[] {
  if (spec.source === undefined && spec.files === undefined) {
    return [{ path: ["source"], message: "a model needs source or files" }];
  }
  if (spec.source !== undefined && spec.files !== undefined) {
    return [{ path: ["files"], message: "source and files exclude each other" }];
  }
  return [];
}

/** What the registry knows of one ref, whether declared in a manifest or found on disk. Published for the gateway. */
export const modelRecordSchema = z.strictObject({
  ref: modelRefSchema,
  /** `manifest`: declared by a person; `file`: found in the models directory; `catalog`: shipped with Berth. */
  origin: z.enum(["manifest", "file", "catalog"]),
  /** The Model that declares it: its manifest goes by this name, which need not be the ref. */
  name: z.string().optional(),
  source: z.string(),
  /** Absolute path of the first file once it is on disk. */
  path: z.string().optional(),
  /** Every file of the model, absolute, shards in order. */
  files: z.array(z.string()).default([]),
  projectorPath: z.string().optional(),
  sizeBytes: z.int().min(0).optional(),
  sha256: sha256Schema.optional(),
  capabilities: z.array(z.enum(modelCapabilities)).default([]),
  engines: z.array(z.enum(engineKinds)).optional(),
  license: z.string().optional(),
  licenseUrl: z.string().optional(),
  architecture: z.string().optional(),
  contextLength: z.int().min(1).optional(),
  parameters: z.int().min(0).optional(),
  /** What one token of context takes, in f16 and with every layer's cache. */
  contextBytesPerToken: z.int().min(1).optional(),
  quantization: z.string().optional(),
  family: z.string().optional(),
  /** GGUF pooling type of an embedding model: none, mean, cls, last or rank. */
  pooling: z.string().optional(),
  /** Unix seconds: the file's modification time, or when the manifest was first seen. */
  created: z.int().min(0).default(0),
  /** Identity of the bytes as last seen (`size:mtimeMs` per file): tells a file replaced in place. */
  fingerprint: z.string().optional(),
  state: z.enum(["available", "missing", "unsupported", "invalid"]),
  /** Why it is not available, for a person. */
  message: z.string().optional(),
  /** Machine-readable cause when not available: becomes the Stalled reason of a slot that wants it. */
  reason: z.enum(["UnsupportedSource", "ModelFileMissing", "NotAModel", "TruncatedModel", "Unreadable"]).optional(),
});
export type ModelRecord = z.output<typeof modelRecordSchema>;
