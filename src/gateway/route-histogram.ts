import { Histogram } from "prom-client";

type Label = "route" | "slot";

interface Value {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly sharedLabels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The observations of one route and slot. */
export class RouteSeries {
  readonly labels: Readonly<Record<Label, string>>;
  /** How many fell into each bucket alone; the last counts what is larger than all bounds. */
  readonly counts: number[];
  readonly #bounds: readonly number[];
  sum = 0;

  constructor(labels: Readonly<Record<Label, string>>, bounds: readonly number[]) {
    this.labels = labels;
    this.#bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    let at = 0;
    // Past the last bound the comparison is with undefined, and false.
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? Infinity)) at += 1;
    this.counts[at] = (this.counts[at] ?? 0) + 1;
    this.sum += value;
  }
}

/**
 * A histogram whose series are looked up once and counted in themselves. prom-client's own checks and hashes the labels
 * of every observation, which costs a chat request more than its resolution and its queue together.
 */
export class RouteHistogram extends Histogram<Label> {
  readonly #name: string;
  readonly #help: string;
  readonly #buckets: readonly number[];
  readonly #series: RouteSeries[] = [];

  constructor(config: { name: string; help: string; buckets: readonly number[] }) {
    super({ ...config, buckets: [...config.buckets], labelNames: ["route", "slot"], registers: [] });
    this.#name = config.name;
    this.#help = config.help;
    this.#buckets = config.buckets;
  }

  /** Call it once per route and slot, and keep what it gives. */
  series(labels: Readonly<Record<Label, string>>): RouteSeries {
    const series = new RouteSeries(labels, this.#buckets);
    this.#series.push(series);
    return series;
  }

  /** Where prom-client (15) takes the values of a histogram from, for the page and for JSON. */
  getForPromString(): Promise<unknown> {
    return Promise.resolve({
      name: this.#name,
      help: this.#help,
      type: "histogram",
      aggregator: "sum",
      values: this.#series.flatMap((series) => this.#values(series)),
    });
  }

  #values({ labels: sharedLabels, counts, sum }: RouteSeries): Value[] {
    let total = 0;
    const values: Value[] = counts.map((count, at) => {
      total += count;
      const labels = { le: this.#buckets[at] ?? "+Inf" };
      return { metricName: `${this.#name}_bucket`, labels, sharedLabels, value: total };
    });
    values.push({ metricName: `${this.#name}_sum`, labels: {}, sharedLabels, value: sum });
    values.push({ metricName: `${this.#name}_count`, labels: {}, sharedLabels, value: total });
    // As with any other histogram, there is nothing to see of what was never observed.
    return total === 0 ? [] : values;
  }
}
