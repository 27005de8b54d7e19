import { ReadFamily, sampleLine, ValueFamily, type Family, type Format } from "./families.ts";
import { HistogramFamily } from "./histogram.ts";
import { labelText, type MetricSpec, type Sample } from "./spec.ts";

/** The process's own figures, as prom-client's registry has them. */
interface ProcessMetrics {
  getMetricsAsJSON(): Promise<readonly ProcessMetric[]>;
}

interface ProcessMetric {
  readonly name: string;
  readonly help: string;
  readonly type: unknown;
  readonly values: readonly {
    readonly value: number;
    readonly labels: object;
    readonly metricName?: string;
  }[];
}

const contentTypes = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
} as const satisfies Record<Format, string>;

/** After this long the page lets other work of the process go first. */
const sliceMs = 2;
/** Samples between two readings of the clock. */
const sliceSamples = 32;

export interface RenderedPage {
  readonly type: string;
  readonly body: Buffer;
}

/**
 * A page of metrics. A page of a thousand slots has 14,000 lines: it is written in slices, and the event loop serves
 * requests between two of them. Scrapes at the same time share one page.
 */
export class MetricPage {
  readonly #families: Family[] = [];
  readonly #process: ProcessMetrics | undefined;
  readonly #before: (() => Promise<void>)[] = [];
  readonly #open = new Map<Format, Promise<RenderedPage>>();

  constructor(process?: ProcessMetrics) {
    this.#process = process;
  }

  /** The families that it has, in their order. */
  get specs(): readonly MetricSpec[] {
    return this.#families.map(({ spec }) => spec);
  }

  values<L extends string>(spec: MetricSpec<L>): ValueFamily<L> {
    return this.#add(new ValueFamily(spec));
  }

  histogram<L extends string>(spec: MetricSpec<L>): HistogramFamily<L> {
    return this.#add(new HistogramFamily(spec));
  }

  /** `read` is called at each scrape. The collection may change while it is iterated, between two slices. */
  read(spec: MetricSpec, read: () => Iterable<Sample>): void {
    this.#add(new ReadFamily(spec, read));
  }

  /** `prepare` is awaited before each page is written. */
  before(prepare: () => Promise<void>): void {
    this.#before.push(prepare);
  }

  /** `accept`: the header of that name. OpenMetrics is sent only to those who ask for it. */
  render(accept?: string): Promise<RenderedPage> {
    const format: Format = accept?.includes("application/openmetrics-text") === true ? "openmetrics" : "prometheus";
    let page = this.#open.get(format);
    if (page === undefined) {
      page = this.#render(format).finally(() => this.#open.delete(format));
      this.#open.set(format, page);
    }
    return page;
  }

  #add<F extends Family>(family: F): F {
    if (this.#families.some(({ spec }) => spec.name === family.spec.name))
      throw new Error(`two families of the page are called ${family.spec.name}`);
    this.#families.push(family);
    return family;
  }

  async #render(format: Format): Promise<RenderedPage> {
    await Promise.all(this.#before.map((prepare) => prepare()));
    // As bytes at once: a text of 2 MiB would be put together, and encoded, in one piece.
    const slices: Buffer[] = [];
    let text = "";
    for (const metric of (await this.#process?.getMetricsAsJSON()) ?? []) text += processText(metric, format);
    let began = performance.now();
    let samples = 0;
    for (const family of this.#families) {
      text += headText(family.spec, format);
      for (const part of family.parts(format)) {
        if (typeof part === "string") text += part;
        else {
          if (text !== "") slices.push(Buffer.from(text));
          text = "";
          slices.push(part);
        }
        samples += 1;
        if (samples % sliceSamples !== 0 || performance.now() - began < sliceMs) continue;
        if (text !== "") slices.push(Buffer.from(text));
        text = "";
        await new Promise<void>((resolve) => void setImmediate(resolve));
        began = performance.now();
      }
    }
    slices.push(Buffer.from(format === "openmetrics" ? `${text}# EOF\n` : text));
    return { type: contentTypes[format], body: Buffer.concat(slices) };
  }
}

function headText({ name, type, help }: Pick<MetricSpec, "name" | "help"> & { type: unknown }, format: Format): string {
  // In OpenMetrics the family of a counter is named without its suffix.
  const family = format === "openmetrics" && type === "counter" ? name.replace(/_total$/, "") : name;
  return `# HELP ${family} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${family} ${String(type)}\n`;
}

function processText(metric: ProcessMetric, format: Format): string {
  let text = headText(metric, format);
  for (const { value, labels, metricName } of metric.values) {
    const texts = Object.fromEntries(Object.entries(labels).map(([name, label]) => [name, String(label)]));
    text += sampleLine(metricName ?? metric.name, labelText(Object.keys(texts), texts), value);
  }
  return text;
}
