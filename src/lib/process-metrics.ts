import { createHistogram, type Histogram } from "node:perf_hooks";
import { collectDefaultMetrics, Gauge, type Registry } from "prom-client";
import { steadyNow } from "./steady-clock.ts";

/** Often enough to see a loop that is held up for long, and no more: little else wakes a process at rest. */
const everyMs = 1000;
/** The library's own sampler is replaced, and must wake nobody. */
const neverMs = 1_000_000_000;

interface Figure {
  readonly name: string;
  readonly help: string;
  /** Nanoseconds. */
  readonly read: (delays: Histogram) => number;
}

const figures: readonly Figure[] = [
  { name: "min", help: "The least delay", read: ({ min }) => min },
  { name: "max", help: "The longest delay", read: ({ max }) => max },
  { name: "mean", help: "The mean delay", read: ({ mean }) => mean },
  { name: "stddev", help: "The standard deviation of delays", read: ({ stddev }) => stddev },
  { name: "p50", help: "The median delay", read: (delays) => delays.percentile(50) },
  { name: "p90", help: "The 90th percentile of delays", read: (delays) => delays.percentile(90) },
  { name: "p99", help: "The 99th percentile of delays", read: (delays) => delays.percentile(99) },
];

/**
 * What every page of metrics says of its process. The delays of the event loop are by how much a timer was late: the
 * library's figures are the time between two samples, by which a process at rest would seem to be held up for a second.
 */
export function collectProcessMetrics(register: Registry, sampleMs: number = everyMs): void {
  collectDefaultMetrics({ register, eventLoopMonitoringPrecision: neverMs });
  const delays = createHistogram();
  sampleDelays((ms) => delays.record(Math.max(1, Math.round(ms * 1e6))), sampleMs);
  for (const { name: figure, help, read } of figures) {
    const name = `nodejs_eventloop_lag_${figure}_seconds`;
    register.removeSingleMetric(name);
    new Gauge({
      name,
      help: `${help} of the event loop since the last look`,
      registers: [register],
      collect() {
        // Looked at more often than it was sampled, it says the same again.
        if (delays.count === 0) return;
        this.set(read(delays) / 1e9);
        // Figures are collected in the order in which they were registered.
        if (figure === figures.at(-1)?.name) delays.reset();
      },
    });
  }
}

/** Tells again and again by how many milliseconds a timer was late. Keeps no process alive. */
function sampleDelays(onDelay: (ms: number) => void, sampleMs: number): void {
  let dueAt = steadyNow() + sampleMs;
  const sample = (): void => {
    const now = steadyNow();
    onDelay(now - dueAt);
    dueAt = now + sampleMs;
    setTimeout(sample, sampleMs).unref();
  };
  setTimeout(sample, sampleMs).unref();
}
