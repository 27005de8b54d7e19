import { z } from "zod";
import type { RouteShape } from "./shape.ts";

/** The values that llama-server's router gives a model. A model whose last load failed is `unloaded` and `failed`. */
export const routerStatusValues = ["unloaded", "downloading", "loading", "loaded", "sleeping"] as const;

/** The state of a model as llama-server's router writes it: README of tools/server, "Using multiple models". */
export const routerStatusSchema = z.looseObject({
  value: z.enum(routerStatusValues),
  args: z.array(z.string()).optional(),
  progress: z
    .union([
      z.strictObject({ stages: z.array(z.string()), current: z.string(), value: z.number().min(0).max(1).optional() }),
      z.record(z.string(), z.strictObject({ done: z.int().min(0), total: z.int().min(0) })),
    ])
    .optional()
    .describe(
      "loading: the stages, the present one, and how much of it is over by the time of the load before; downloading: bytes of each file",
    ),
  failed: z.boolean().optional().describe("true: its last load failed"),
  exit_code: z.int().optional(),
  reason: z.string().optional().describe("Why it failed"),
});
export type RouterStatus = z.output<typeof routerStatusSchema>;

const modalities = z.array(z.string());
export const routerModelSchema = z.looseObject({
  id: z.string(),
  aliases: z.array(z.string()),
  object: z.literal("model"),
  created: z.int().min(1),
  owned_by: z.literal("berth"),
  status: routerStatusSchema,
  architecture: z.strictObject({ input_modalities: modalities, output_modalities: modalities }),
  source: z.literal("preset"),
  can_remove: z.literal(false),
  berth: z.strictObject({ slot: z.string(), state: z.string() }),
});
export type RouterModel = z.output<typeof routerModelSchema>;

/** The fields of llama-server's `/props` that clients read. */
const routerPropsSchema = z.looseObject({
  default_generation_settings: z.strictObject({
    n_ctx: z.int().min(0).describe("Tokens of context of each request; 0: not known yet"),
    params: z.record(z.string(), z.unknown()),
  }),
  total_slots: z.int().min(1).describe("Requests at once"),
  model_alias: z.string(),
  model_path: z.string().describe("The model's ref; no path of this machine"),
  modalities: z.strictObject({ vision: z.boolean(), audio: z.boolean() }),
  chat_template: z.string(),
  build_info: z.string(),
  is_sleeping: z.boolean().describe("No engine is loaded: the next request loads one"),
});

const modelBody = z.looseObject({ model: z.string().min(1).max(300).describe("An id or an alias of GET /models") });
const success = z.strictObject({ success: z.literal(true) });

/** The models of slots in the words of llama-server's router, for programs that know these. */
export const routerRoutes = {
  routerModels: {
    method: "GET",
    path: "/models",
    scope: "public",
    tag: "router",
    summary: "Each model that a slot holds or may be swapped to, with its state, as llama-server's router lists them",
    answers: { 200: z.strictObject({ object: z.literal("list"), data: z.array(routerModelSchema) }) },
  },
  routerProps: {
    method: "GET",
    path: "/props",
    scope: "v1",
    tag: "router",
    summary: "The context and the abilities of a slot, as llama-server's `/props` has them; loads nothing",
    query: z.object({ model: z.string().optional().describe("A slot, alias or model; absent: primary") }),
    answers: { 200: routerPropsSchema },
  },
  routerEvents: {
    method: "GET",
    path: "/models/sse",
    scope: "read",
    tag: "router",
    summary: "Changes of these states as server-sent events, as llama-server's router sends them",
    answers: { 200: { type: "text/event-stream" } },
  },
  routerLoad: {
    method: "POST",
    path: "/models/load",
    scope: "admin",
    tag: "router",
    summary: "Loads a model; the answer does not wait for it",
    body: modelBody,
    answers: { 200: success },
  },
  routerUnload: {
    method: "POST",
    path: "/models/unload",
    scope: "admin",
    tag: "router",
    summary: "Unloads a model; the answer does not wait for it",
    body: modelBody,
    answers: { 200: success },
  },
} as const satisfies Record<string, RouteShape>;
