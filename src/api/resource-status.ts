import { z } from "zod";
import { conditionSchema } from "./conditions.ts";
import { modelSpecSchema } from "./model.ts";
import { slotGroupSpecSchema } from "./slot-group.ts";

/**
 * The status of a declared Model, Upstream or SlotGroup, as the operator publishes it with the registry. A resource whose manifest
 * was never valid has a status, too: its conditions name the file and the place.
 */
export const resourceStatusSchema = z.strictObject({
  kind: z.enum(["Model", "Upstream", "SlotGroup"]),
  name: z.string(),
  file: z.string(),
  generation: z.int().min(1),
  specHash: z.string(),
  /** The spec of a Model in force, for the next operator: by then the manifest may be broken. */
  model: modelSpecSchema.optional(),
  /** The same of a SlotGroup. */
  group: slotGroupSpecSchema.optional(),
  conditions: z.array(conditionSchema),
});
export type ResourceStatus = z.output<typeof resourceStatusSchema>;

/** The status of a Model, Upstream or SlotGroup as an API server keeps it. */
export const objectStatusSchema = resourceStatusSchema
  .pick({ conditions: true })
  .extend({ observedGeneration: z.int().min(0) });

/** The key of a resource among those of all kinds. */
export function resourceKey({ kind, name }: { readonly kind: string; readonly name: string }): string {
  return `${kind}/${name}`;
}
