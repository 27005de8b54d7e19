import { z } from "zod";
import { benchmarkSchema, clientLimit, levelLimit } from "../benchmark.ts";
import { modelRefSchema } from "../names.ts";

const figure = z.number().min(0).max(1e12);

/** One row of `berth bench`; null: too few tokens for such a figure. */
const levelSchema = z.strictObject({
  clients: z.int().min(1).max(clientLimit),
  requests: z.int().min(1),
  first_token_ms: figure.nullable().describe("The median"),
  slowest_first_token_ms: figure.nullable(),
  tokens_per_second_each: figure.nullable().describe("Of the median answer, after its first token"),
  tokens_per_second: figure.describe("Of all clients together"),
});

/** The report of `berth bench` on a slot. */
export const benchmarkBody = z.strictObject({
  model: modelRefSchema.nullish().describe("The measured model; refused where the slot holds another by now"),
  max_tokens: z.int().min(1).describe("The longest answer"),
  levels: z.array(levelSchema).min(1).max(levelLimit),
});
export type BenchmarkBody = z.output<typeof benchmarkBody>;

export const benchmarkViewSchema = z.strictObject({
  measured_at: benchmarkSchema.shape.measuredAt,
  model: z.string().nullable(),
  backend: z.string(),
  runtime: z.string(),
  load_seconds: z.number().min(0).nullable().describe("The last load before it"),
  max_tokens: z.int().min(1),
  levels: z.array(levelSchema),
  changed: z.string().nullable().describe("What has changed since, so that the figures are void; null: nothing known"),
});
export type BenchmarkView = z.output<typeof benchmarkViewSchema>;

/** The benchmark of a model or a catalogue entry: by the slot that holds it and was measured last. */
export const modelBenchmarkSchema = benchmarkViewSchema
  .extend({ slot: z.string() })
  .nullable()
  .describe("The last `berth bench` of it that holds; null: none");
