import { z } from "zod";
import { modelRefSchema, slotCapabilities } from "./names.ts";

const secretSourceSchema = z.union([
  z.strictObject({ env: z.string().min(1).describe("Name of an environment variable of the gateway") }),
  z.strictObject({ file: z.string().startsWith("/").describe("Absolute path of a file that holds the secret") }),
  z.strictObject({
    secretKeyRef: z
      .strictObject({
        name: z.string().min(1).describe("Name of the Secret"),
        key: z.string().min(1).describe("Key within the Secret"),
      })
      .describe("Key of a Secret in the gateway's namespace; in a cluster only"),
  }),
]);

export const upstreamSpecSchema = z.strictObject({
  baseUrl: z
    .url({ protocol: /^https?$/, error: "must be an http or https address" })
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
      intervalSeconds: z.int().min(10).max(604_800).default(300).describe("Time between two lists"),
      prefix: z.string().default("").describe("Put before the provider's names"),
    })
    .optional()
    .describe("List the provider's models in the background"),
  headers: z.record(z.string(), z.string()).default({}).describe("More request headers; no secrets"),
  timeoutSeconds: z.int().min(1).max(86_400).default(300).describe("Longest silence of the provider"),
  connectSeconds: z.int().min(1).max(86_400).default(5).describe("Longest time to connect"),
  maxConcurrent: z.int().min(1).optional().describe("Requests at once; absent: no limit"),
  retries: z.int().min(0).max(10).default(1).describe("After failures before the first byte"),
  capabilities: z
    .array(z.enum(slotCapabilities))
    .default(["chat", "completions", "embeddings"])
    .describe("Routes its models answer"),
});
export type UpstreamSpec = z.output<typeof upstreamSpecSchema>;
export type SecretSource = z.output<typeof secretSourceSchema>;

/** Headers that the connection or the request itself sets. */
const ownHeaders = [
  "accept",
  "accept-encoding",
  "connection",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "x-request-id",
];
/** Headers that carry credentials. */
export const secretHeaders: readonly string[] = [
  "authorization",
  "proxy-authorization",
  "cookie",
  "x-api-key",
  "api-key",
];
/** RFC 9110, 5.1 and 5.5. */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** The rules that hold between fields of an Upstream. Empty when all hold. */
export function upstreamRules(spec: UpstreamSpec): { path: string[]; message: string }[] {
  const problems: { path: string[]; message: string }[] = [];
  const note = (path: string[], message: string): void => void problems.push({ path, message });
  if (spec.models.length === 0 && spec.discover === undefined) {
    note(["models"], "an upstream needs models, discover, or both");
  }
  const refs = new Set<string>();
  for (const [index, { ref }] of spec.models.entries()) {
    if (refs.has(ref)) note(["models", String(index), "ref"], "this ref is listed twice");
    refs.add(ref);
  }
  const { username, password } = new URL(spec.baseUrl);
  if (username !== "" || password !== "") note(["baseUrl"], "credentials belong in auth.valueFrom");
  if (spec.auth.type === "header") {
    if (!headerName.test(spec.auth.header)) note(["auth", "header"], "this is no name of a header");
    if (ownHeaders.includes(spec.auth.header.toLowerCase())) note(["auth", "header"], "Berth sets this header itself");
  }
  for (const [name, value] of Object.entries(spec.headers)) {
    const path = ["headers", name];
    if (!headerName.test(name)) note(path, "this is no name of a header");
    else if (secretHeaders.includes(name.toLowerCase())) note(path, "a key belongs in auth.valueFrom");
    else if (ownHeaders.includes(name.toLowerCase())) note(path, "Berth sets this header itself");
    else if (!headerValue.test(value)) note(path, "a header cannot hold this value");
  }
  return problems;
}
