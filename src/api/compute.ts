import { z } from "zod";

/** The devices that an engine computes on, as the engine itself reports them. */
export const computeSchema = z.strictObject({
  /** GPUs that hold part of the model, by the engine's names, e.g. CUDA0; empty: the processor alone. */
  devices: z.array(z.string()),
  layersOffloaded: z.int().min(0).optional(),
  layersTotal: z.int().min(0).optional(),
  /** Memory that the engine allocated for weights, context and computation, by device; drivers add some. */
  buffers: z.array(z.strictObject({ device: z.string(), bytes: z.int().min(0) })).optional(),
});
export type Compute = z.infer<typeof computeSchema>;
