import { z } from "zod";

const count = z.int().min(0);
const checkStatus = z.enum(["ok", "degraded"]);
export const healthSchema = z.strictObject({
  status: checkStatus,
  checks: z.strictObject({
    store: z.strictObject({ status: checkStatus, reasons: z.array(z.string()) }),
    operator_heartbeat: z.strictObject({
      status: checkStatus,
      last: z.iso.datetime().nullable(),
      /** Operators that ended in the last ten minutes without being asked to. */
      unexpected_ends: count,
    }),
    disk: z.strictObject({ status: checkStatus, free_bytes: count.nullable() }),
    slots: z.strictObject({ status: checkStatus, failed: z.array(z.string()) }),
    conditions: z
      .strictObject({
        status: checkStatus,
        counts: z.array(z.strictObject({ kind: z.string(), type: z.string(), reason: z.string(), count })),
      })
      .describe("The number of resources per condition that needs a person; their records have names and messages"),
  }),
});
export type Health = z.output<typeof healthSchema>;
