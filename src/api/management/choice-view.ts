import { z } from "zod";

/** Which of its models a slot holds, where requests choose. */
export const choiceViewSchema = z.strictObject({
  usual: z.string().describe("What the slot's own name means"),
  refs: z.array(z.string()),
  chosen: z.string(),
  failed: z.array(
    z.strictObject({
      ref: z.string(),
      reason: z.string(),
      message: z.string(),
      failures: z.int().min(0),
      retry_at: z.iso.datetime(),
    }),
  ),
});
