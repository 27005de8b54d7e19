import { z } from "zod";
import { modelRefSchema } from "./names.ts";

const rate = z.number().min(0);

/** The most levels of clients that a result may have. */
export const levelLimit = 32;
/** The most clients at once. */
export const clientLimit = 256;

/** The figures of `berth bench` with that many clients at once. Absent: too few tokens for such a figure. */
const levelSchema = z.strictObject({
  clients: z.int().min(1).max(clientLimit),
  requests: z.int().min(1),
  /** The median and the longest. */
  firstTokenMs: rate.optional(),
  slowestFirstTokenMs: rate.optional(),
  /** The speed of the median answer, and of all clients together. */
  tokensPerSecondEach: rate.optional(),
  tokensPerSecond: rate,
});

/** A result of `berth bench`, as a client sent it to a gateway. */
export const benchmarkSchema = z.strictObject({
  measuredAt: z.iso.datetime(),
  model: modelRefSchema.optional(),
  backend: z.string(),
  runtime: z.string(),
  /** The last load before it. */
  loadSeconds: rate.optional(),
  /** The longest answer. */
  maxTokens: z.int().min(1),
  levels: z.array(levelSchema).min(1).max(levelLimit),
});
export type Benchmark = z.output<typeof benchmarkSchema>;

/** Marks of what a result depends on; of each only equality means something. Absent: not known. */
const basisSchema = z.strictObject({
  /** Size and time of the model's file. */
  modelFile: z.string().optional(),
  /** The program's file, or the image. */
  engine: z.string().optional(),
  /** The workload hash. */
  settings: z.string().optional(),
  /** Processor, GPUs and drivers. */
  hardware: z.string().optional(),
});
export type BenchmarkBasis = z.output<typeof basisSchema>;

/** A slot's last result, and what it depends on. */
export const lastBenchmarkSchema = benchmarkSchema.extend({
  of: basisSchema,
  /** The change since the measurement that makes the figures void; absent: no change is known. */
  changed: z.string().optional(),
});
export type LastBenchmark = z.output<typeof lastBenchmarkSchema>;
