import { z } from "zod";

/** The last save, restore or loss of the context that a slot keeps over an unload. */
export const keptContextSchema = z.strictObject({
  at: z.iso.datetime(),
  result: z.enum(["saved", "restored", "dropped"]),
  message: z.string(),
  /** As the engine counted them; 0 where nothing is kept. */
  tokens: z.int().min(0),
  bytes: z.int().min(0),
});
export type KeptContext = z.infer<typeof keptContextSchema>;
