import { upstreamMetrics as families } from "../../api/metrics/gateway.ts";
import type { Metric } from "../../api/metrics/metric.ts";
import type { ValueFamily } from "../../lib/metrics/families.ts";
import { GoneNames } from "../../lib/metrics/gone-names.ts";
import type { HistogramFamily } from "../../lib/metrics/histogram.ts";
import type { MetricPage } from "../../lib/metrics/page.ts";
import type { Outcome } from "./provider-failure.ts";
import type { UpstreamView } from "./upstreams.ts";

const circuitStates = ["closed", "open", "halfOpen"] as const;

/** The metrics of providers. */
export class UpstreamMetrics {
  readonly #requests: ValueFamily<"upstream" | "outcome">;
  readonly #retries: ValueFamily<"upstream">;
  readonly #duration: HistogramFamily<"upstream">;
  /** Every provider with series. */
  readonly #names = new Set<string>();

  /** `now`: milliseconds of a monotonic clock. */
  constructor(page: MetricPage, views: () => readonly UpstreamView[], now?: () => number) {
    this.#requests = page.values(families.requests);
    this.#retries = page.values(families.retries);
    this.#duration = page.histogram(families.duration);
    const gauge = (metric: Metric, value: (view: UpstreamView) => number): void =>
      page.read(metric, function* () {
        for (const view of views()) yield [`upstream="${view.name}"`, value(view)];
      });
    gauge(families.inFlight, ({ inFlight }) => inFlight);
    gauge(families.queued, ({ queued }) => queued);
    gauge(families.paused, ({ pausedModels }) => pausedModels);
    gauge(families.models, ({ refs }) => refs);
    const gone = new GoneNames((upstream) => views().some(({ name }) => name === upstream), now);
    page.before(async () => {
      for (const upstream of gone.due(() => this.#names)) this.#drop(upstream);
    });
    page.read(families.circuit, function* () {
      for (const { name, circuit } of views())
        for (const state of circuitStates) yield [`upstream="${name}",state="${state}"`, state === circuit ? 1 : 0];
    });
  }

  outcome(upstream: string, outcome: Outcome, seconds: number | undefined): void {
    this.#names.add(upstream);
    this.#requests.add({ upstream, outcome });
    if (seconds !== undefined) this.#duration.series({ upstream }).observe(seconds);
  }

  retry(upstream: string): void {
    this.#retries.add({ upstream });
  }

  #drop(upstream: string): void {
    this.#names.delete(upstream);
    for (const family of [this.#requests, this.#retries, this.#duration]) family.removeWhere("upstream", upstream);
  }
}
