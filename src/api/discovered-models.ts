import { z } from "zod";

/** The models that a provider listed last (`<state>/discovered/`). No address and no secret. */
export const discoveredModelsSchema = z.strictObject({
  schema: z.literal(1),
  upstream: z.string(),
  /** When it listed them. */
  listedAt: z.iso.datetime(),
  /** The provider's own names. */
  models: z.array(z.string()),
});
export type DiscoveredModels = z.output<typeof discoveredModelsSchema>;
