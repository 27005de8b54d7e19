import { z } from "zod";
import type { FieldProblem } from "./slot.ts";

const seconds = z.int().min(0).max(86_400);

/** The `spec` of a SlotGroup: what the slots that name it in `group` share. */
export const slotGroupSpecSchema = z.strictObject({
  budget: z
    .strictObject({
      slots: z
        .int()
        .min(1)
        .max(1000)
        .optional()
        .describe("How many slots of the group may be loaded at once; absent, with no other budget: 1"),
      memoryBytes: z
        .int()
        .min(1)
        .optional()
        .describe("Bytes that the loaded slots may need together: of GPUs where a slot uses one, else of the host"),
      device: z
        .string()
        .min(1)
        .max(64)
        .optional()
        .describe("The whole memory of one device: an id as in /api/hardware, gpu0 for the first GPU, or host"),
    })
    .prefault({})
    .describe("What the slots of the group share: one kind of budget"),
  maxWaitSeconds: seconds
    .default(60)
    .describe(
      "A slot that is asked for waits this long for an idle one to leave; then a busy one takes no new requests",
    ),
  minResidencySeconds: seconds.default(30).describe("A slot that became ready is not asked to leave before"),
});
export type SlotGroupSpec = z.output<typeof slotGroupSpecSchema>;

/** The rules that hold between fields. Empty when all hold. */
export function slotGroupRules({ budget }: SlotGroupSpec): FieldProblem[] {
  const given = Object.values(budget).filter((value) => value !== undefined).length;
  if (given <= 1) return [];
  return [{ path: ["budget"], message: "has one kind: a number of slots, a number of bytes, or a device" }];
}
