import { z } from "zod";
import { modelRefSchema, slotCapabilities } from "./names.ts";

const secretSourceSchema = z.union([
  z.strictObject({ env: z.string().min(1) }),
  z.strictObject({ file: z.string().startsWith("/") }),
  z.strictObject({ secretKeyRef: z.strictObject({ name: z.string().min(1), key: z.string().min(1) }) }),
]);

export const upstreamSpecSchema = z.strictObject({
  baseUrl: z
    .url({ protocol: /^https?$/ })
    .describe("Base of the provider's OpenAI-style API, e.g. https://api.example.com/v1"),
  auth: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("none") }),
      z.strictObject({ type: z.literal("bearer"), valueFrom: secretSourceSchema }),
      z.strictObject({ type: z.literal("header"), header: z.string().min(1), valueFrom: secretSourceSchema }),
    ])
    .default({ type: "none" }),
  models: z.array(z.strictObject({ ref: modelRefSchema, upstreamModel: z.string().min(1).optional() })).default([]),
  discover: z
    .strictObject({ intervalSeconds: z.int().min(10).default(300), prefix: z.string().default("") })
    .optional()
    .describe("List the provider's models in the background"),
  headers: z.record(z.string(), z.string()).default({}),
  timeoutSeconds: z.int().min(1).default(300),
  connectSeconds: z.int().min(1).default(5),
  maxConcurrent: z.int().min(1).optional(),
  retries: z.int().min(0).max(10).default(1),
  capabilities: z.array(z.enum(slotCapabilities)).default(["chat", "completions", "embeddings"]),
});
export type UpstreamSpec = z.output<typeof upstreamSpecSchema>;

export function upstreamRules(spec: UpstreamSpec): { path: string[]; message: string }[] {
  if (spec.models.length === 0 && spec.discover === undefined) {
    return [{ path: ["models"], message: "an upstream needs models, discover, or both" }];
  }
  return [];
}
