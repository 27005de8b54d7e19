import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { Outcome } from "./provider-failure.ts";
import type { UpstreamView } from "./upstreams.ts";

const buckets = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const circuitStates = ["closed", "open", "halfOpen"] as const;

/** What the gateway's metric page says of providers. */
export class UpstreamMetrics {
  readonly #requests: Counter<"upstream" | "outcome">;
  readonly #retries: Counter<"upstream">;
  readonly #duration: Histogram<"upstream">;

  constructor(registry: Registry, views: () => readonly UpstreamView[]) {
    const registers = [registry];
    const labelNames = ["upstream"] as const;
    this.#requests = new Counter({
      name: "berth_upstream_requests_total",
      help: "Requests to providers, every try on its own, by HTTP status or by why there was none",
      labelNames: ["upstream", "outcome"],
      registers,
    });
    this.#retries = new Counter({
      name: "berth_upstream_retries_total",
      help: "Requests to providers that were sent again",
      labelNames,
      registers,
    });
    this.#duration = new Histogram({
      name: "berth_upstream_request_duration_seconds",
      help: "From sending a request to a provider to the end of its answer",
      labelNames,
      buckets,
      registers,
    });
    const gauge = (name: string, help: string, value: (view: UpstreamView) => number): void => {
      new Gauge({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset();
          for (const view of views()) this.set({ upstream: view.name }, value(view));
        },
      });
    };
    gauge("berth_upstream_requests_in_flight", "Requests that a provider works on", ({ inFlight }) => inFlight);
    gauge("berth_upstream_requests_queued", "Requests that wait because of maxConcurrent", ({ queued }) => queued);
    gauge(
      "berth_upstream_models_paused",
      "Models that a provider keeps failing for, left alone for a while",
      ({ pausedModels }) => pausedModels,
    );
    gauge("berth_upstream_models", "Refs that a provider serves", ({ refs }) => refs);
    new Gauge({
      name: "berth_upstream_circuit",
      help: "1 for the present state of a provider's circuit",
      labelNames: ["upstream", "state"],
      registers,
      collect() {
        this.reset();
        for (const { name, circuit } of views()) {
          for (const state of circuitStates) this.set({ upstream: name, state }, state === circuit ? 1 : 0);
        }
      },
    });
  }

  outcome(upstream: string, outcome: Outcome, seconds: number | undefined): void {
    this.#requests.inc({ upstream, outcome });
    if (seconds !== undefined) this.#duration.observe({ upstream }, seconds);
  }

  retry(upstream: string): void {
    this.#retries.inc({ upstream });
  }
}
