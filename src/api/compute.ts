import { z } from "zod";

/** What an engine computes on, by its own account. */
export const computeSchema = z.strictObject({
  /** GPUs that hold something of the model, by the engine's names, e.g. CUDA0; empty: the processor alone. */
  devices: z.array(z.string()),
  layersOffloaded: z.int().min(0).optional(),
  layersTotal: z.int().min(0).optional(),
  /** What it allocated for weights, context and work, by device; drivers take some more. */
  buffers: z.array(z.strictObject({ device: z.string(), bytes: z.int().min(0) })).optional(),
});
export type Compute = z.infer<typeof computeSchema>;
