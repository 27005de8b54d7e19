import { z } from "zod";
import { contextCostSchema } from "./context-cost.ts";
import { backends, engineKinds, modelCapabilities, modelRefSchema } from "./names.ts";

export const sha256Schema = z.string().regex(/^[0-9a-f]{64}$/, "64 lower-case hexadecimal digits");

/** Where a model's bytes come from. */
export const modelSourceSchema = z
  .string()
  .regex(
    /^(?:(?:hf|https|file|flm|voice):\/\/.+|http:\/\/(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?\/.+)$/,
    "starts with hf://, https://, file://, flm:// or voice://; http:// only for a server of this machine (localhost, 127.0.0.1, [::1])",
  );

/** A page that a person may be led to: `javascript:` and `data:` addresses would run in the dashboard. */
const webPage = /^https?:\/\//;

export const modelSpecSchema = z.strictObject({
  ref: modelRefSchema.optional().describe("The ref; absent: the resource's name"),
  source: modelSourceSchema
    .optional()
    .describe("Source of the bytes: hf://owner/repo/file[@revision], https://…, file:///…"),
  files: z
    .array(
      z.strictObject({
        source: modelSourceSchema.describe("Source of this file's bytes"),
        sha256: sha256Schema.optional().describe("Of this file: checked when it is fetched"),
        as: z.string().min(1).optional().describe("File name on disk; absent: the source's own"),
      }),
    )
    .min(1)
    .optional()
    .describe("Several files, e.g. shards or a projector"),
  sha256: sha256Schema
    .optional()
    .describe(
      "Checked when the model is fetched; a change restarts the engine. It is not computed for a file that you put in place yourself",
    ),
  sizeBytes: z
    .int()
    .min(0)
    .optional()
    .describe("The bytes of all its files together, a projector included: checked when given, recorded when not"),
  engines: z.array(z.enum(engineKinds)).optional().describe("Engines that may serve it; absent: all"),
  backends: z.array(z.enum(backends)).optional().describe("Backends that may serve it; not in this version"),
  capabilities: z.array(z.enum(modelCapabilities)).optional().describe("Its capabilities; absent: read from the file"),
  license: z.string().optional().describe("Shown before a pull"),
  licenseUrl: z
    .url()
    .refine((url) => webPage.test(url), "starts with http:// or https://")
    .meta({ pattern: webPage.source })
    .optional()
    .describe("Where the licence can be read"),
  acceptLicense: z
    .boolean()
    .default(false)
    .describe("Accepts a licence that must be accepted before the model is fetched"),
  contextLength: z.int().min(1).optional().describe("Tokens; absent: read from the file"),
  parameters: z.int().min(0).optional().describe("Number of weights; absent: read from the file"),
  quantization: z.string().optional().describe("Such as Q4_K_M; absent: read from the file"),
  family: z.string().optional().describe("Architecture; absent: read from the file"),
  minVramBytes: z
    .int()
    .min(0)
    .optional()
    .describe("Memory that it needs of a GPU; counts until a better figure is known"),
  memoryBytes: z
    .int()
    .min(0)
    .optional()
    .describe("Memory of the machine that it needs; counts until a better figure is known"),
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

/** One file that is fetched. */
export const wantedFileSchema = z.strictObject({
  source: z.string(),
  sha256: sha256Schema.optional(),
  /** File name on disk; absent: the source's own. */
  as: z.string().optional(),
});
export type WantedFile = z.output<typeof wantedFileSchema>;

/** The registry's record of one ref, declared in a manifest or found on disk. Published for the gateway. */
export const modelRecordSchema = z.strictObject({
  ref: modelRefSchema,
  /** `manifest`: declared by a person; `file`: found in the models directory; `catalog`: shipped with Berth. */
  origin: z.enum(["manifest", "file", "catalog"]),
  /** The name of the Model that declares it, and of its manifest; it may differ from the ref. */
  name: z.string().optional(),
  source: z.string(),
  /** Absolute path of the first file once it is on disk. */
  path: z.string().optional(),
  /** Every file of the model, absolute, shards in order. */
  files: z.array(z.string()).default([]),
  projectorPath: z.string().optional(),
  /** The size of all its files together. */
  sizeBytes: z.int().min(0).optional(),
  sha256: sha256Schema.optional(),
  /** By path: the SHA-256 that the manifest names for files that are not fetched. */
  checksums: z.record(z.string(), sha256Schema).optional(),
  capabilities: z.array(z.enum(modelCapabilities)).default([]),
  engines: z.array(z.enum(engineKinds)).optional(),
  license: z.string().optional(),
  licenseUrl: z.string().optional(),
  architecture: z.string().optional(),
  contextLength: z.int().min(1).optional(),
  parameters: z.int().min(0).optional(),
  /** The sizes of its context; absent: not known. */
  contextCost: contextCostSchema.optional(),
  quantization: z.string().optional(),
  family: z.string().optional(),
  /** GGUF pooling type of an embedding model: none, mean, cls, last or rank. */
  pooling: z.string().optional(),
  /** Whether its file says how chats are written; absent: not known. */
  hasChatTemplate: z.boolean().optional(),
  /** The memory that the manifest declares as needed: of a GPU, and of the machine. */
  minVramBytes: z.int().min(0).optional(),
  memoryBytes: z.int().min(0).optional(),
  /** Unix seconds: the file's modification time, or when the manifest was first seen. */
  created: z.int().min(0).default(0),
  /** Identity of the bytes at the last read (`size:mtimeMs` per file): detects a file replaced in place. */
  fingerprint: z.string().optional(),
  state: z.enum(["available", "missing", "unsupported", "invalid"]),
  /** Why it is not available, for a person. */
  message: z.string().optional(),
  /** Machine-readable cause when not available: becomes the Stalled reason of a slot with this model. */
  reason: z
    .enum([
      "UnsupportedSource",
      "ModelFileMissing",
      "NotFetched",
      "LicenseNotAccepted",
      "NotAModel",
      "TruncatedModel",
      "Unreadable",
    ])
    .optional(),
  /** The files that the operator fetches when a slot needs the model; some or all are not on disk. */
  fetch: z
    .strictObject({
      files: z.array(wantedFileSchema).min(1),
      /** The size of all files together. */
      sizeBytes: z.int().min(0).optional(),
    })
    .optional(),
});
export type ModelRecord = z.output<typeof modelRecordSchema>;

/** A file that is no model for anybody, such as a projector alone: the registry has it so that people learn why. */
export function isNoModel({ state, reason }: Pick<ModelRecord, "state" | "reason">): boolean {
  return state === "invalid" && reason === "NotAModel";
}

/** The sentence for a person about a model that cannot hold a chat, with its remedy; undefined for other models. */
export function chatFault({
  state,
  capabilities,
  hasChatTemplate,
}: Pick<ModelRecord, "state" | "capabilities" | "hasChatTemplate">): string | undefined {
  if (state !== "available" || hasChatTemplate !== false || !capabilities.includes("chat")) return undefined;
  return 'the model\'s file has no chat template, as base weights have none: it may answer for both sides; choose an instruct model (often named -it or -instruct), or set capabilities = ["completions"] in the slot if it only completes texts';
}
