import { completeSlot, slotSpecSchema } from "../../src/api/slot.ts";
import type { PublishedSlot } from "../../src/api/status.ts";

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
    status: {
      state: "offline",
      conditions: [],
      observedGeneration: 1,
      model: { origin: "spec" },
      capabilities: [],
      protocols: [],
      decisions: {},
      processes: [],
      restarts: 0,
      failures: 0,
      aliases: [],
      handledRequests: {},
      transitions: [],
      counters: { transitions: {}, restarts: 0 },
    },
    plan: { reason: "NotConfigured", message: "", steps: [] },
  };
}
