import { createHistogram, type Histogram } from "node:perf_hooks";
import { steadyNow } from "./steady-clock.ts";

/** A figure of how late the event loop is, for a page of metrics. */
export interface LoopDelay {
  readonly name: string;
  readonly help: string;
  /** Seconds, of the time since the last look; undefined: nothing was sampled since. */
  readonly read: () => number | undefined;
}

/** Often enough to see a loop that is held up for long, and no more: little else wakes a process at rest. */
const everyMs = 1000;

/** Gauges that prom-client names as if they were counters; each has its twin by type, without `_total`. */
const misnamedMetrics: readonly string[] = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/** What makes a gauge of prom-client. */
interface GaugeOptions {
  readonly name: string;
  readonly help: string;
  readonly collect: (this: { set(value: number): void }) => void;
}

/**
 * Puts the delays of the event loop in the place of prom-client's figures, and removes what that library misnames. `add`
 * makes a gauge on the same page.
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

/** The interval to give to a sampler that is not to wake anybody. */
export const hardlyEverMs = 1_000_000_000;

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
 * By how much a timer was late, under prom-client's names; to be read in this order. That library's own figures are the
 * time between two samples, by which a process at rest would seem to be held up for a second. Keeps no process alive.
 */
export function loopDelays(sampleMs: number = everyMs): readonly LoopDelay[] {
  const delays = createHistogram();
  let dueAt = steadyNow() + sampleMs;
  const sample = (): void => {
    const now = steadyNow();
    delays.record(Math.max(1, Math.round((now - dueAt) * 1e6)));
    dueAt = now + sampleMs;
    setTimeout(sample, sampleMs).unref();
  };
  setTimeout(sample, sampleMs).unref();
  return figures.map(([figure, help, read], index) => ({
    name: `nodejs_eventloop_lag_${figure}_seconds`,
    help: `${help} of the event loop since the last look`,
    read: () => {
      if (delays.count === 0) return undefined;
      const seconds = read(delays) / 1e9;
      if (index === figures.length - 1) delays.reset();
      return seconds;
    },
  }));
}
