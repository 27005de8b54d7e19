import { z } from "zod";

/** Engines' answers with vectors: numbers, or 32-bit floats as base64. */
export const embeddingsAnswerSchema = z.looseObject({
  data: z.array(z.looseObject({ embedding: z.union([z.array(z.number()), z.string()]) })),
});
