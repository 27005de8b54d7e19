import { completeSlot, slotSpecSchema } from "../../src/api/slot.ts";
import { emptyStatus, type PublishedSlot } from "../../src/api/status.ts";

/** A slot as the operator publishes one that does not run. */
export function published(name: string, revision = 1): PublishedSlot {
  return {
    schema: 1,
    name,
    revision,
    generation: 1,
    specHash: "h",
    labels: {},
    spec: completeSlot(name, slotSpecSchema.parse({ model: { default: "m" } })),
    status: { ...emptyStatus, observedGeneration: 1 },
    plan: { reason: "NotConfigured", message: "", steps: [] },
  };
}
