import { z } from "zod";

const time = z.iso.datetime();
const file = { path: z.string(), stamp: z.string() };

/** The run of the operator that leads, for the next operator: `<state>/run.json`. */
export const operatorRunSchema = z.strictObject({
  schema: z.literal(1),
  /** The boot of its machine: a reboot ends operators through no fault of theirs. */
  bootId: z.string(),
  /** False: it was asked to end. */
  isRunning: z.boolean(),
  /** When operators ended without being asked to, the latest last. */
  ends: z.array(time),
  /** The model file whose header is being read. */
  reading: z.strictObject(file).optional(),
  /** Model files during whose reading operators have ended, and how many. */
  setAside: z.array(z.strictObject({ ...file, ends: z.int().min(1) })),
});
export type OperatorRun = z.infer<typeof operatorRunSchema>;
