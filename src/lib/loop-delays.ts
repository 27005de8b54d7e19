import { createHistogram, type Histogram } from "node:perf_hooks";
import { steadyNow } from "./steady-clock.ts";

/** One figure of the event loop's delay, for a page of metrics. */
export interface LoopDelay {
  readonly name: string;
  readonly help: string;
  /** Seconds; undefined: there is no sample, for all but the last delay since the last call. */
  readonly read: () => number | undefined;
}

/** Often enough to notice a loop that is blocked for long, and no more: little else wakes a process at rest. */
const everyMs = 1000;

/** Gauges that prom-client names like counters; each has its twin by type, without `_total`. */
const misnamedMetrics: readonly string[] = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/** The options of a prom-client gauge. */
interface GaugeOptions {
  readonly name: string;
  readonly help: string;
  readonly collect: (this: { set(value: number): void }) => void;
}

/**
 * Replaces prom-client's figures by the delays of the event loop, and removes its misnamed gauges. `add` makes a gauge
 * on the same page.
 */
export function mendProcessMetrics(
  page: { removeSingleMetric(name: string): void },
  add: (options: GaugeOptions) => void,
): void {
  for (const name of misnamedMetrics) page.removeSingleMetric(name);
  for (const { name, help, read } of loopDelays()) {
    page.removeSingleMetric(name);
    const collect: GaugeOptions["collect"] = function () {
      const seconds = read();
      if (seconds !== undefined) this.set(seconds);
    };
    add({ name, help, collect });
  }
}

/** The interval for a sampler that should not wake the process. */
export const hardlyEverMs = 1_000_000_000;

/** Nanoseconds. Coarse: each scrape looks at every class of the histogram; the usual one has 45,000, this one 3200. */
const classes = { lowest: 1000, highest: 1e12, figures: 2 } as const;

/** Nanoseconds. */
const figures: readonly (readonly [figure: string, help: string, read: (delays: Histogram) => number])[] = [
  ["min", "The least delay", ({ min }) => min],
  ["max", "The longest delay", ({ max }) => max],
  ["mean", "The mean delay", ({ mean }) => mean],
  ["stddev", "The standard deviation of delays", ({ stddev }) => stddev],
  ["p50", "The median delay", (delays) => delays.percentile(50)],
  ["p90", "The 90th percentile of delays", (delays) => delays.percentile(90)],
  ["p99", "The 99th percentile of delays", (delays) => delays.percentile(99)],
];

/**
 * How late a timer fired, under prom-client's names; to be read in this order. That library's own figures are the time
 * between two samples, so that a process at rest seems to be blocked for a second. Keeps no process alive.
 */
export function loopDelays(sampleMs: number = everyMs): readonly LoopDelay[] {
  const delays = createHistogram(classes);
  let last: number | undefined;
  let dueAt = steadyNow() + sampleMs;
  const sample = (): void => {
    const now = steadyNow();
    last = Math.min(Math.max(classes.lowest, Math.round((now - dueAt) * 1e6)), classes.highest);
    delays.record(last);
    dueAt = now + sampleMs;
    setTimeout(sample, sampleMs).unref();
  };
  setTimeout(sample, sampleMs).unref();
  const ofLast: LoopDelay = {
    name: "nodejs_eventloop_lag_seconds",
    help: "The last delay of the event loop",
    read: () => (last === undefined ? undefined : last / 1e9),
  };
  const sinceScrape = figures.map(([figure, help, read], index) => ({
    name: `nodejs_eventloop_lag_${figure}_seconds`,
    help: `${help} of the event loop since the last scrape`,
    read: () => {
      if (delays.count === 0) return undefined;
      const seconds = read(delays) / 1e9;
      if (index === figures.length - 1) delays.reset();
      return seconds;
    },
  }));
  return [ofLast, ...sinceScrape];
}
