import { hasLabel, labelText, type MetricSpec, type Sample } from "./spec.ts";

/** A family whose samples are read at each scrape. */
export interface Family {
  readonly spec: MetricSpec;
  /**
   * The parts of the family, each in one piece: `name{labels} value` lines, also as bytes. May change while it is
   * iterated.
   */
  parts(format: Format): Iterable<string | Buffer>;
}

export type Format = "prometheus" | "openmetrics";

/** One number of a family; the caller keeps it, so that counting costs no lookup of labels. */
export class ValueSeries {
  readonly labels: string;
  value: number;

  constructor(labels: string, value: number) {
    this.labels = labels;
    this.value = value;
  }
}

/** Counters or gauges that Berth sets itself. */
export class ValueFamily<L extends string> implements Family {
  readonly spec: MetricSpec<L>;
  readonly #series = new Map<string, ValueSeries>();

  constructor(spec: MetricSpec<L>) {
    this.spec = spec;
  }

  series(labels: Readonly<Record<L, string>>): ValueSeries {
    const text = labelText(this.spec.labels, labels);
    let series = this.#series.get(text);
    if (series === undefined) this.#series.set(text, (series = new ValueSeries(text, 0)));
    return series;
  }

  add(labels: Readonly<Record<L, string>>, by = 1): void {
    this.series(labels).value += by;
  }

  set(labels: Readonly<Record<L, string>>, value: number): void {
    this.series(labels).value = value;
  }

  remove(labels: Readonly<Record<L, string>>): void {
    this.#series.delete(labelText(this.spec.labels, labels));
  }

  /** Removes every series that has this value of the label. */
  removeWhere(label: L, value: string): void {
    for (const labels of this.#series.keys()) if (hasLabel(labels, label, value)) this.#series.delete(labels);
  }

  *parts(): Iterable<string> {
    const { name } = this.spec;
    for (const { labels, value } of this.#series.values()) yield sampleLine(name, labels, value);
  }
}

/** A family that is read from elsewhere at each scrape. */
export class ReadFamily implements Family {
  readonly spec: MetricSpec;
  readonly #read: () => Iterable<Sample>;

  constructor(spec: MetricSpec, read: () => Iterable<Sample>) {
    this.spec = spec;
    this.#read = read;
  }

  *parts(): Iterable<string> {
    const { name } = this.spec;
    for (const [labels, value] of this.#read()) yield sampleLine(name, labels, value);
  }
}

export function sampleLine(name: string, labels: string, value: number): string {
  return labels === "" ? `${name} ${valueText(value)}\n` : `${name}{${labels}} ${valueText(value)}\n`;
}

export function valueText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}
