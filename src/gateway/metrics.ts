import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import { slotStates } from "../api/states.ts";
import { hardlyEverMs, mendProcessMetrics } from "../lib/loop-delays.ts";
import { slotsInOrder, type ResolutionIndex } from "./index.ts";
import type { Admission } from "./admission/admission.ts";
import { RouteHistogram, type RouteSeries } from "./route-histogram.ts";
import type { Traffic } from "./traffic.ts";

const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What is counted of one route and slot, looked up once and kept: labels cost more than counting. */
export interface RouteMetrics {
  readonly duration: RouteSeries;
  readonly firstByte: RouteSeries;
  /** Requests by HTTP status. */
  readonly codes: Map<number, number>;
}

/** Label of requests whose model resolved to no slot: unknown names must not make new series. */
export const noSlot = "none";

/** The gateway's metric page (CONTRACT "Metrics that others rely on"). */
export class GatewayMetrics {
  readonly registry = new Registry();
  readonly #duration: RouteHistogram;
  readonly #firstByte: RouteHistogram;
  readonly #waits: Histogram<"slot">;
  readonly #routes = new Map<string, Map<string, RouteMetrics>>();

  constructor(options: {
    traffic: Traffic;
    admission: Admission;
    index: () => ResolutionIndex;
    /** Requests that wait to hear what their model means. */
    newcomers: () => number;
  }) {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry, eventLoopMonitoringPrecision: hardlyEverMs });
    mendProcessMetrics(this.registry, (gauge) => new Gauge({ ...gauge, registers }));
    const routes = this.#routes;
    new Counter({
      name: "berth_requests_total",
      help: "Requests by route, slot and HTTP status",
      labelNames: ["route", "slot", "code"],
      registers,
      collect() {
        this.reset();
        for (const [route, slots] of routes)
          for (const [slot, { codes }] of slots)
            for (const [code, count] of codes) this.inc({ route, slot, code: String(code) }, count);
      },
    });
    this.#duration = new RouteHistogram({
      name: "berth_request_duration_seconds",
      help: "From the request's header to the end of its answer",
      buckets,
    });
    this.#firstByte = new RouteHistogram({
      name: "berth_time_to_first_byte_seconds",
      help: "From the request's header to the first byte of its answer",
      buckets,
    });
    this.registry.registerMetric(this.#duration);
    this.registry.registerMetric(this.#firstByte);
    this.#waits = new Histogram({
      name: "berth_request_wait_seconds",
      help: "How long requests waited for a slot that was not there, or for their turn, however that ended",
      labelNames: ["slot"],
      buckets,
      registers,
    });
    const { traffic, admission, index, newcomers } = options;
    new Gauge({
      name: "berth_requests_in_flight",
      help: "Requests that an engine works on",
      labelNames: ["slot"],
      registers,
      collect() {
        this.reset();
        for (const { name } of slotsInOrder(index())) this.set({ slot: name }, traffic.inFlight(name));
      },
    });
    new Gauge({
      name: "berth_requests_queued",
      help: "Requests that wait for their turn at a slot that is there",
      labelNames: ["slot"],
      registers,
      collect() {
        this.reset();
        for (const { name } of slotsInOrder(index())) this.set({ slot: name }, admission.counts(name).queued);
      },
    });
    new Gauge({
      name: "berth_requests_held",
      help: "Requests that wait for a slot that is not there",
      labelNames: ["slot"],
      registers,
      collect() {
        this.reset();
        for (const { name } of slotsInOrder(index())) this.set({ slot: name }, admission.counts(name).held);
        this.set({ slot: noSlot }, newcomers());
      },
    });
    new Gauge({
      name: "berth_slot_state",
      help: "1 for the present state of a slot",
      labelNames: ["slot", "state"],
      registers,
      collect() {
        this.reset();
        for (const slot of slotsInOrder(index())) {
          const present = traffic.stateOf(slot);
          for (const state of slotStates) this.set({ slot: slot.name, state }, state === present ? 1 : 0);
        }
      },
    });
  }

  /** `count` is asked whenever the page is. */
  onSharedReaders(count: () => number): void {
    new Gauge({
      name: "berth_shared_stream_readers",
      help: "Clients of streams that began on a cold slot and may be shared",
      registers: [this.registry],
      collect() {
        this.set(count());
      },
    });
  }

  /** A request has waited before that slot, and waits no more: it went in, was refused or left. */
  waited(slot: string, seconds: number): void {
    this.#waits.observe({ slot }, seconds);
  }

  of(route: string, slot: string): RouteMetrics {
    let slots = this.#routes.get(route);
    if (slots === undefined) this.#routes.set(route, (slots = new Map()));
    let metrics = slots.get(slot);
    if (metrics === undefined) {
      const labels = { route, slot };
      metrics = {
        duration: this.#duration.series(labels),
        firstByte: this.#firstByte.series(labels),
        codes: new Map(),
      };
      slots.set(slot, metrics);
    }
    return metrics;
  }
}
