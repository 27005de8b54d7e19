/** One family of a metric page, as people see it in docs/metrics.md. Names and labels are a contract with dashboards. */
export interface Metric<L extends string = string> {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly L[];
  /** The unit of the value; `1`: a count, or yes and no. */
  readonly unit: "seconds" | "bytes" | "ratio" | "tokens" | "1";
  readonly help: string;
  /** The most series that there may be. A value that clients choose freely is in no label. */
  readonly bound: string;
  readonly buckets?: readonly number[];
}

/**
 * The buckets of OpenTelemetry's metrics of generative models: 0.01 s doubling to 81.92
 * (open-telemetry/semantic-conventions-genai, commit 004902b8).
 */
export const genAiBuckets: readonly number[] = Array.from({ length: 14 }, (_, at) => 0.01 * 2 ** at);
