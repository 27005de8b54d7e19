import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { ApiError, ErrorCode } from "../../api/errors.ts";
import { gatewayMetrics as families } from "../../api/metrics/gateway.ts";
import { hardlyEverMs, mendProcessMetrics } from "../../lib/loop-delays.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import type { ValueFamily, ValueSeries } from "../../lib/metrics/families.ts";
import { GoneNames } from "../../lib/metrics/gone-names.ts";
import type { HistogramFamily, HistogramSeries } from "../../lib/metrics/histogram.ts";
import { MetricPage } from "../../lib/metrics/page.ts";
import type { EngineCaches } from "./engine-cache.ts";
import { exportSlots, noSlot, type SlotReaders } from "./slot-metrics.ts";
import type { SlotTotals } from "./traffic-history.ts";

/** `cold`: the stream's request waited for its slot to load. */
type StreamStart = "cold" | "warm";

/** Why a person has taken a slot away: requests for it are refused as they should be. */
const takenAway: ReadonlySet<unknown> = new Set(["Lent", "Paused", "Unloaded"]);

/** The counters of one route and slot, looked up once and kept: labels cost more than counting. */
export interface RouteMetrics {
  readonly duration: HistogramSeries;
  readonly firstByte: HistogramSeries;
  /** Made by the first stream. */
  readonly firstToken: (start: StreamStart) => HistogramSeries;
  /** Requests by HTTP status. */
  readonly codes: Map<number, ValueSeries>;
}

/** The counters of one slot or provider. */
export interface SlotMetrics {
  readonly tokensIn: ValueSeries;
  readonly tokensOut: ValueSeries;
  readonly betweenTokens: HistogramSeries;
}

/** The label of a provider begins with it. */
const ofUpstream = "upstream ";

/** The gateway's metric page (docs/metrics.md). */
export class GatewayMetrics {
  readonly page: MetricPage;
  readonly #requests: ValueFamily<"route" | "slot" | "code">;
  readonly #duration: HistogramFamily<"route" | "slot">;
  readonly #firstByte: HistogramFamily<"route" | "slot">;
  readonly #firstToken: HistogramFamily<"route" | "slot" | "start">;
  readonly #betweenTokens: HistogramFamily<"slot">;
  readonly #tokens: ValueFamily<"slot" | "direction">;
  readonly #waits: HistogramFamily<"slot">;
  readonly #holds: HistogramFamily<"slot">;
  readonly #failures: ValueFamily<"slot" | "error" | "answer" | "reason">;
  readonly #sharedJoins: ValueFamily<"slot">;
  readonly #routes = new Map<string, Map<string, RouteMetrics>>();
  /** Slots of the index, which have series before their first request. */
  readonly #declared = new Set<string>();
  readonly #slots = new Map<string, SlotMetrics>();
  /** The families with series of each slot. */
  readonly #ofSlots: readonly { removeWhere(label: "slot", value: string): void }[];

  /** `now`: milliseconds of a monotonic clock. */
  constructor(slots: SlotReaders, now?: () => number) {
    const ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess, eventLoopMonitoringPrecision: hardlyEverMs });
    mendProcessMetrics(ofProcess, (gauge) => new Gauge({ ...gauge, registers: [ofProcess] }));
    const page = new MetricPage(ofProcess);
    this.page = page;
    this.#requests = page.values(families.requests);
    this.#duration = page.histogram(families.duration);
    this.#firstByte = page.histogram(families.firstByte);
    this.#firstToken = page.histogram(families.firstToken);
    this.#betweenTokens = page.histogram(families.betweenTokens);
    this.#tokens = page.values(families.tokens);
    this.#waits = page.histogram(families.wait);
    this.#holds = page.histogram(families.hold);
    this.#failures = page.values(families.failures);
    this.#sharedJoins = page.values(families.sharedJoins);
    this.#ofSlots = [
      this.#requests,
      this.#duration,
      this.#firstByte,
      this.#firstToken,
      this.#betweenTokens,
      this.#tokens,
      this.#waits,
      this.#holds,
      this.#failures,
      this.#sharedJoins,
    ];
    this.#failures.series({ slot: noSlot, error: "model.not_found", answer: "none", reason: "other" });
    exportSlots(page, slots, (slot) => this.#known(slot));
    const { index, upstreams } = slots;
    const isPresent = (name: string): boolean =>
      name.startsWith(ofUpstream)
        ? upstreams.get(name.slice(ofUpstream.length)) !== undefined
        : index().slots.has(name);
    const gone = new GoneNames(isPresent, now);
    page.before(async () => {
      for (const name of gone.due(() => this.#names())) this.#drop(name);
    });
  }

  onEngines(caches: EngineCaches): void {
    this.page.read(families.cacheUsage, () => caches.samples());
  }

  /** Slots and `upstream NAME`s with series. */
  *#names(): Iterable<string> {
    for (const slots of this.#routes.values()) for (const slot of slots.keys()) if (slot !== noSlot) yield slot;
    yield* this.#slots.keys();
    yield* this.#declared;
  }

  #drop(slot: string): void {
    for (const slots of this.#routes.values()) slots.delete(slot);
    this.#slots.delete(slot);
    this.#declared.delete(slot);
    for (const family of this.#ofSlots) family.removeWhere("slot", slot);
  }

  /** Each is called at each scrape. */
  onGateway(
    proxy: { readonly sharedReaders: number; readonly underWay: number },
    gateway: {
      /** The end of the time for open requests, by the steady clock; undefined while the gateway does not stop. */
      readonly drainEndsAt: () => number | undefined;
      readonly isOperatorLive: () => boolean;
    },
  ): void {
    this.page.read(families.sharedReaders, () => [["", proxy.sharedReaders]]);
    this.page.read(families.draining, () => [["", gateway.drainEndsAt() === undefined ? 0 : 1]]);
    this.page.read(families.drainLeft, function* () {
      const endsAt = gateway.drainEndsAt();
      if (endsAt !== undefined && proxy.underWay > 0) yield ["", Math.max(0, endsAt - steadyNow()) / 1000];
    });
    this.page.read(families.operatorLive, () => [["", gateway.isOperatorLive() ? 1 : 0]]);
  }

  /** The wait of a request for that slot has ended: it was admitted, refused or abandoned. */
  waited(slot: string, { waitMs, holdMs }: { readonly waitMs: number; readonly holdMs: number }): void {
    this.#waits.series({ slot }).observe(waitMs / 1000);
    if (holdMs > 0) this.#holds.series({ slot }).observe(holdMs / 1000);
  }

  /** A request of that slot got an error instead of an answer, or of its end. */
  failed(slot: string, { code, details }: Pick<ApiError, "code" | "details">, hasBegun: boolean): void {
    const error: ErrorCode = code;
    const why = details?.["reason"];
    const reason = code === "slot.not_ready" && takenAway.has(why) ? String(why) : "other";
    this.#failures.add({ slot, error, answer: hasBegun ? "begun" : "none", reason });
  }

  /** Failures with an alert of their own are there before the first: a counter that begins with 1 has not grown. */
  #known(slot: string): void {
    this.#declared.add(slot);
    const reason = "other";
    this.#failures.series({ slot, error: "slot.overloaded", answer: "none", reason });
    for (const error of ["dispatch.upstream_failed", "dispatch.upstream_timeout"] satisfies ErrorCode[])
      this.#failures.series({ slot, error, answer: "begun", reason });
  }

  /** The counters of each slot and provider, by name. */
  totals(): Map<string, SlotTotals> {
    const totals = new Map<string, SlotTotals>();
    const of = (slot: string): SlotTotals => {
      let own = totals.get(slot);
      if (own === undefined) totals.set(slot, (own = { requests: 0, errors: 0, tokensIn: 0, tokensOut: 0 }));
      return own;
    };
    for (const slots of this.#routes.values())
      for (const [slot, { codes }] of slots)
        for (const [code, { value }] of codes) {
          const own = of(slot);
          own.requests += value;
          if (code >= 400 && code !== 499) own.errors += value;
        }
    for (const [slot, { tokensIn, tokensOut }] of this.#slots)
      Object.assign(of(slot), { tokensIn: tokensIn.value, tokensOut: tokensOut.value });
    return totals;
  }

  joined(slot: string): void {
    this.#sharedJoins.add({ slot });
  }

  ofSlot(slot: string): SlotMetrics {
    let metrics = this.#slots.get(slot);
    if (metrics === undefined) {
      metrics = {
        tokensIn: this.#tokens.series({ slot, direction: "in" }),
        tokensOut: this.#tokens.series({ slot, direction: "out" }),
        betweenTokens: this.#betweenTokens.series({ slot }),
      };
      this.#slots.set(slot, metrics);
    }
    return metrics;
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
        firstToken: (start) => this.#firstToken.series({ ...labels, start }),
        codes: new Map(),
      };
      slots.set(slot, metrics);
    }
    return metrics;
  }

  /** The request has ended with that HTTP status. */
  ended(route: string, slot: string, code: number, seconds: number): void {
    const metrics = this.of(route, slot);
    metrics.duration.observe(seconds);
    let series = metrics.codes.get(code);
    if (series === undefined) {
      series = this.#requests.series({ route, slot, code: String(code) });
      metrics.codes.set(code, series);
    }
    series.value += 1;
  }
}
