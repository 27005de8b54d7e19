import { sampleLine, valueText, type Family, type Format } from "./families.ts";
import { hasLabel, labelText, type MetricSpec } from "./spec.ts";

/** Names one of the requests that a bucket counts: `trace_id` or `request_id`. */
interface Exemplar {
  readonly label: string;
  readonly value: number;
  /** Seconds since the epoch. */
  readonly at: number;
}

/** OpenMetrics allows 128 characters for name and value of an exemplar's label. */
const exemplarChars = 100;

/** The observations of one series. */
export class HistogramSeries {
  readonly labels: string;
  /** The count of each bucket alone; the last counts values above all bounds. */
  readonly counts: number[];
  readonly exemplars: (Exemplar | undefined)[] = [];
  readonly #bounds: readonly number[];
  sum = 0;
  /** Its part of the last page: most series have no observation between two scrapes. */
  written: { readonly format: Format; readonly total: number; readonly bytes: Buffer } | undefined;

  constructor(labels: string, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    this.observeEach(value, 1);
  }

  /** The same value `count` times. */
  observeEach(value: number, count: number): void {
    const at = this.#bucketOf(value);
    this.counts[at] = (this.counts[at] ?? 0) + count;
    this.sum += value * count;
  }

  /** Keeps the request as the example of its bucket, at most once a second. `name` is the label's. */
  observeAs(value: number, name: "trace_id" | "request_id", id: string): void {
    const at = this.#bucketOf(value);
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sum += value;
    const now = Date.now() / 1000;
    if (now - (this.exemplars[at]?.at ?? 0) < 1 || id.length > exemplarChars) return;
    this.exemplars[at] = { label: `${name}="${id}"`, value, at: now };
  }

  #bucketOf(value: number): number {
    let at = 0;
    // After the last bound the comparison is with undefined, and false.
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? Infinity)) at += 1;
    return at;
  }
}

/** A histogram whose series are looked up once and counted directly. */
export class HistogramFamily<L extends string> implements Family {
  readonly spec: MetricSpec<L>;
  readonly #series = new Map<string, HistogramSeries>();
  readonly #bounds: readonly number[];
  readonly #names: { readonly sum: string; readonly count: string };
  /** The beginning of each bucket's line. */
  readonly #buckets: Readonly<Record<Format, readonly string[]>>;

  constructor(spec: MetricSpec<L>) {
    this.spec = spec;
    this.#bounds = spec.buckets ?? [];
    this.#names = { sum: `${spec.name}_sum`, count: `${spec.name}_count` };
    const begin = (bound: string): string => `${spec.name}_bucket{le="${bound}"`;
    this.#buckets = {
      prometheus: [...this.#bounds.map((bound) => begin(String(bound))), begin("+Inf")],
      // OpenMetrics wants a number with a point; the text of Prometheus stays as dashboards know it.
      openmetrics: [
        ...this.#bounds.map((bound) => begin(Number.isInteger(bound) ? `${bound}.0` : String(bound))),
        begin("+Inf"),
      ],
    };
  }

  series(labels: Readonly<Record<L, string>>): HistogramSeries {
    const text = labelText(this.spec.labels, labels);
    let series = this.#series.get(text);
    if (series === undefined) this.#series.set(text, (series = new HistogramSeries(text, this.#bounds)));
    return series;
  }

  remove(labels: Readonly<Record<L, string>>): void {
    this.#series.delete(labelText(this.spec.labels, labels));
  }

  /** Removes every series that has this value of the label. */
  removeWhere(label: L, value: string): void {
    for (const labels of this.#series.keys()) if (hasLabel(labels, label, value)) this.#series.delete(labels);
  }

  *parts(format: Format): Iterable<Buffer> {
    for (const series of this.#series.values()) {
      let total = 0;
      for (const count of series.counts) total += count;
      if (total === 0) continue;
      // Every observation makes the total larger: with the same one nothing has changed.
      if (series.written?.total !== total || series.written.format !== format)
        series.written = { format, total, bytes: Buffer.from(this.#text(series, format)) };
      yield series.written.bytes;
    }
  }

  #text({ labels, counts, sum, exemplars }: HistogramSeries, format: Format): string {
    const begins = this.#buckets[format];
    const rest = labels === "" ? "} " : `,${labels}} `;
    let total = 0;
    let text = "";
    for (let at = 0; at < counts.length; at += 1) {
      total += counts[at] ?? 0;
      text += begins[at] + rest + total;
      const exemplar = format === "openmetrics" ? exemplars[at] : undefined;
      if (exemplar !== undefined)
        text += ` # {${exemplar.label}} ${valueText(exemplar.value)} ${exemplar.at.toFixed(3)}`;
      text += "\n";
    }
    return text + sampleLine(this.#names.sum, labels, sum) + sampleLine(this.#names.count, labels, total);
  }
}
