/** One family of a metric page. `src/api/metrics/` has all of them; docs/metrics.md is made from the same data. */
export interface MetricSpec<L extends string = string> {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly L[];
  /** The upper bounds of a histogram's buckets, ascending, without infinity. */
  readonly buckets?: readonly number[];
}

/** One line of a family: its labels as text, such as `slot="primary"`, and its value. */
export type Sample = readonly [labels: string, value: number];

/** The labels of one series as the page has them. */
export function labelText<L extends string>(names: readonly L[], values: Readonly<Record<L, string>>): string {
  let text = "";
  for (const name of names) text += `${text === "" ? "" : ","}${name}="${escaped(values[name])}"`;
  return text;
}

/** Whether labels, as the page has them, give that value to that name. */
export function hasLabel(labels: string, name: string, value: string): boolean {
  const part = `${name}="${escaped(value)}"`;
  // No value contains this: its quotes are escaped.
  return labels.startsWith(part) || labels.includes(`,${part}`);
}

function escaped(value: string): string {
  return /["\\\n]/.test(value) ? value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n") : value;
}
