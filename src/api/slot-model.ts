import { z } from "zod";
import { modelRefSchema } from "./names.ts";

const positive = z.int().min(1);
const seconds = z.int().min(0).max(86_400);

/** `spec.model` of a Slot: what it holds, and how. */
export const slotModelSchema = z.strictObject({
  default: modelRefSchema.optional().describe("The slot's model, unless a swap replaces it"),
  contextSize: positive
    .max(16_777_216)
    .optional()
    .describe("Context of each request in tokens; absent: from the model and a quarter of the memory"),
  gpuLayers: z.int().min(0).max(10_000).optional().describe("Layers on the GPU; absent: all of them"),
  spill: z
    .enum(["allow", "forbid"])
    .optional()
    .describe("Whether layers that do not fit on the GPU may move to the host, where they are slow; absent: forbid"),
  parallel: positive.max(256).default(1).describe("Requests the engine works on at once"),
  threads: positive.max(1024).optional().describe("CPU threads; absent: derived from the cores"),
  promptCacheBytes: z.int().min(0).optional().describe("Host memory for cached prompts, 0 none; absent: at most 1 GiB"),
  keepContext: z
    .strictObject({
      maxBytes: positive
        .default(4 * 1024 ** 3)
        .describe("Disk space for it, of all replicas and all models that the slot has held"),
      maxAgeSeconds: positive.max(31_536_000).default(86_400).describe("An older one is deleted"),
    })
    .optional()
    .describe("Keeps the context of prompts on the disk while the slot is unloaded; absent: it is lost"),
  projector: z.string().min(1).optional().describe("Vision projector, a ref or a path"),
  rerank: modelRefSchema.optional().describe("The model of an embedding slot's second process"),
  onRequest: z
    .array(modelRefSchema)
    .default([])
    .describe("Models that a request may swap this slot to by naming them, beside model.default"),
  maxWaitSeconds: seconds
    .optional()
    .describe("With model.onRequest: longest wait for a model while requests keep another busy; absent: 60"),
  minResidencySeconds: seconds
    .optional()
    .describe("With model.onRequest: shortest stay of a model that was used, before another replaces it; absent: 10"),
});
