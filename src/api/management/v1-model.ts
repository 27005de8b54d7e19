import { z } from "zod";
import { routerStatusValues } from "./router-routes.ts";

/** An item of `/v1/models`. */
export const v1ModelSchema = z.strictObject({
  id: z.string(),
  object: z.literal("model"),
  created: z.int().min(1),
  owned_by: z.literal("berth"),
  status: z
    .strictObject({ value: z.enum(routerStatusValues) })
    .optional()
    .describe("Of a slot or its model: as in GET /models"),
  context_length: z.int().min(1).optional().describe("Tokens of context of each request; absent: not known yet"),
  max_model_len: z.int().min(1).optional().describe("The same, as vLLM names it"),
  meta: z
    .strictObject({ n_ctx: z.int().min(1).optional(), n_ctx_train: z.int().min(1).optional() })
    .optional()
    .describe("The same, and the longest context of the model itself, as llama-server names them"),
  berth: z.looseObject({
    kind: z.enum(["slot", "model", "upstream"]),
    state: z.string(),
    slot: z.string().nullable(),
    capabilities: z.array(z.string()),
  }),
});
export type V1Model = z.output<typeof v1ModelSchema>;
