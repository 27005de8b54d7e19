import { z } from "zod";
import { conditionSchema } from "./conditions.ts";
import { modelSpecSchema } from "./model.ts";

/**
 * How a declared Model or Upstream is, as the operator publishes it with the registry. A resource whose manifest was never
 * valid has a status, too: its conditions name the file and the place.
 */
export const resourceStatusSchema = z.strictObject({
  kind: z.enum(["Model", "Upstream"]),
  name: z.string(),
  file: z.string(),
  generation: z.int().min(1),
  specHash: z.string(),
  /** Of a Model, for the next operator: the spec in force, which a manifest that is broken by then does not tell. */
  model: modelSpecSchema.optional(),
  conditions: z.array(conditionSchema),
});
export type ResourceStatus = z.output<typeof resourceStatusSchema>;

/** Names a resource among those of all kinds. */
export function resourceKey({ kind, name }: { readonly kind: string; readonly name: string }): string {
  return `${kind}/${name}`;
}
