import { z } from "zod";

const figures = z.array(z.number().min(0));

/** The traffic of a gateway's last minutes, in steps of equal length, the oldest first. */
export const trafficViewSchema = z.strictObject({
  step_seconds: z.int().min(1),
  ended_at: z.iso.datetime().describe("The end of the last step"),
  steps: z.int().min(0).describe("The length of every list below; fewer than asked for after a start"),
  series: z
    .array(
      z.strictObject({
        slot: z
          .string()
          .describe("The slot, `upstream NAME`, `none`, or `other slots`: the sum of all beyond a hundred"),
        requests: figures.describe("Ended in each step"),
        errors: figures.describe("Of these the ones with a status of 400 and above, without 499: the client left"),
        tokens_in: figures,
        tokens_out: figures.describe("Counted as they arrive, not at the end of an answer"),
        in_flight: figures.describe("At the end of each step"),
        waiting: figures.describe("Queued and held, at the end of each step"),
        first_token_ms: z
          .array(z.strictObject({ p50: z.number(), p95: z.number(), count: z.int().min(1) }).nullable())
          .describe("Of the streams that ended in a step, of the last 500 at most; null: none"),
      }),
    )
    .describe("Slots and providers with traffic in that time"),
});
export type TrafficView = z.output<typeof trafficViewSchema>;
