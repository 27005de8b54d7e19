import { z } from "zod";

/**
 * Where a figure of memory comes from: a manifest or the catalogue; the model's header; the engine's own allocator; the
 * processes themselves, when they had loaded it. A later one is believed over an earlier one.
 */
export const fitStages = ["declared", "header", "engine", "measured"] as const;
export type FitStage = (typeof fitStages)[number];

const bytes = z.int().min(0);

/** The memory that a slot's engine needs of each device, by the best figure that is known. */
export const fitSchema = z.strictObject({
  stage: z.enum(fitStages),
  /** The device that is shortest: `host`, or a GPU as the engine or the probe names it. */
  device: z.string(),
  needBytes: bytes,
  /** Absent: it is not known what the device has. */
  budgetBytes: bytes.optional(),
  /**
   * The error of that figure against what was measured: 0.02 is two hundredths too much. Absent: nothing was measured
   * yet.
   */
  errorRatio: z.number().optional(),
  /** Every device that is needed. */
  devices: z.array(z.strictObject({ id: z.string(), needBytes: bytes, budgetBytes: bytes.optional() })),
  /** Every figure that was made, summed over the devices. */
  stages: z.array(z.strictObject({ stage: z.enum(fitStages), needBytes: bytes, errorRatio: z.number().optional() })),
});
export type Fit = z.output<typeof fitSchema>;

const needsSchema = z.array(z.strictObject({ id: z.string(), bytes }));

/** The known memory needs, by combination of model, settings and engine: `<state>/fit.json`. */
export const fitFiguresSchema = z.strictObject({
  schema: z.literal(1),
  figures: z.record(
    z.string(),
    z.strictObject({
      /** When the figures were last used. */
      usedAt: z.iso.datetime(),
      /** The lines that the engine's allocator printed, for each process. */
      engine: z.array(z.string()).optional(),
      measured: needsSchema.optional(),
    }),
  ),
});
export type FitFigures = z.output<typeof fitFiguresSchema>;
