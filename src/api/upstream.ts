import { z } from "zod";
import { modelRefSchema, slotCapabilities } from "./names.ts";

const secretSourceSchema = z.union([
  z.strictObject({ env: z.string().min(1).describe("Name of an environment variable of the gateway") }),
  z.strictObject({ file: z.string().startsWith("/").describe("Absolute path of a file that holds the secret") }),
  z.strictObject({
    secretKeyRef: z
      .strictObject({ name: z.string().min(1), key: z.string().min(1) })
      .describe("Key of a Kubernetes Secret"),
  }),
]);

export const upstreamSpecSchema = z.strictObject({
  baseUrl: z
    .url({ protocol: /^https?$/ })
    .describe("Base of the provider's OpenAI-style API, e.g. https://api.example.com/v1"),
  auth: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("none") }),
      z.strictObject({ type: z.literal("bearer"), valueFrom: secretSourceSchema }),
      z.strictObject({
        type: z.literal("header"),
        header: z.string().min(1).describe("Name of the header"),
        valueFrom: secretSourceSchema,
      }),
    ])
    .default({ type: "none" })
    .describe("How requests are signed; a literal secret is refused"),
  models: z
    .array(
      z.strictObject({
        ref: modelRefSchema.describe("The ref that clients use"),
        upstreamModel: z.string().min(1).optional().describe("The provider's own name; absent: the ref"),
      }),
    )
    .default([])
    .describe("Models by name"),
  discover: z
    .strictObject({
      intervalSeconds: z.int().min(10).default(300).describe("Time between two lists"),
      prefix: z.string().default("").describe("Put before the provider's names"),
    })
    .optional()
    .describe("List the provider's models in the background"),
  headers: z.record(z.string(), z.string()).default({}).describe("More request headers; no secrets"),
  timeoutSeconds: z.int().min(1).default(300).describe("Longest silence of the provider"),
  connectSeconds: z.int().min(1).default(5).describe("Longest time to connect"),
  maxConcurrent: z.int().min(1).optional().describe("Requests at once; absent: no limit"),
  retries: z.int().min(0).max(10).default(1).describe("After failures before the first byte"),
  capabilities: z
    .array(z.enum(slotCapabilities))
    .default(["chat", "completions", "embeddings"])
    .describe("Routes its models answer"),
});
export type UpstreamSpec = z.output<typeof upstreamSpecSchema>;
export type SecretSource = z.output<typeof secretSourceSchema>;

export function upstreamRules(spec: UpstreamSpec): { path: string[]; message: string }[] {
  if (spec.models.length === 0 && spec.discover === undefined) {
    return [{ path: ["models"], message: "an upstream needs models, discover, or both" }];
  }
  return [];
}
