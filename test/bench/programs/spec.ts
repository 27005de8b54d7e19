/** The input of the load programs (JSON in their one argument) and their result (JSON on standard output). */

export interface StreamsSpec {
  readonly port: number;
  /** What the request names, and what every event must name. */
  readonly model: string;
  readonly expectModel: string;
  readonly streams: number;
  readonly events: number;
  readonly everyMs: number;
  readonly padBytes: number;
  /** Requests leave spread over this time, once every connection stands; undefined: each as soon as its own does. */
  readonly rampMs: number | undefined;
  /** Reads no faster than this; 0 as fast as it comes. */
  readonly bytesPerSecond: number;
  /** All bodies are the same; else each has a number of its own. */
  readonly areIdentical: boolean;
  /** Leaves after so long, whatever has come; 0 stays to the end. */
  readonly leaveMs: number;
}

export interface StreamsResult {
  /** Ended cleanly with every byte right. */
  readonly whole: number;
  /** Ended early, or with an error event. */
  readonly cut: number;
  /** Held a byte that the engine did not send. */
  readonly wrong: number;
  /** Answers by status, other than 200. */
  readonly refused: Readonly<Record<string, number>>;
  /** From the engine's write to our read, microseconds. */
  readonly delay: Spread;
  /** From the beginning of a stream's connecting, or of its request where it was connected before, to its first event. */
  readonly firstEvent: Spread;
  /** So many had their first event and not yet their end at one time. */
  readonly mostOpen: number;
  /** When the first and the last stream had its first body byte, microseconds of the shared clock. */
  readonly firstByteUs: number;
  readonly lastFirstByteUs: number;
  /** When the first request left. */
  readonly beganUs: number;
}

export interface RateSpec {
  readonly port: number;
  readonly model: string;
  readonly connections: number;
  readonly perSecond: number;
  readonly seconds: number;
  /** Sent with every request. */
  readonly authorization?: string;
}

export interface FloodSpec {
  readonly port: number;
  readonly connections: number;
  readonly requests: number;
  /** 0: as fast as they are answered. */
  readonly perSecond: number;
  /** Each request names another address behind a trusted proxy. */
  readonly areManyPeers: boolean;
}

export interface FloodResult {
  readonly sent: number;
  /** By status. */
  readonly answers: Readonly<Record<string, number>>;
  readonly seconds: number;
}

export interface RateResult {
  readonly sent: number;
  readonly answered: number;
  readonly wrong: number;
  /** From a request's leaving to the end of its answer, microseconds. */
  readonly latency: Spread;
  /** How late requests left against the schedule: the load tool's own weakness. */
  readonly lateness: Spread;
}

export interface Spread {
  readonly count: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export function spread(values: Float64Array): Spread {
  const sorted = values.toSorted();
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(sorted.length * share) - 1))] ?? 0;
  return { count: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) };
}

export interface HeapSample {
  readonly rss: number;
  readonly heapUsed: number;
  readonly external: number;
  /** What keeps the process alive, by kind. */
  readonly resources: Readonly<Record<string, number>>;
}

export interface MixedSpec {
  readonly port: number;
  readonly model: string;
  readonly connections: number;
  readonly requests: number;
}

export interface MixedResult {
  /** Answers by kind of request and status; `left` where the client went first. */
  readonly answers: Readonly<Record<string, number>>;
}

/** Parts of telemetry that are switched while a gateway runs; `list` is that of `/api/requests`. */
export const switchedParts = ["log", "bodies", "list", "traces", "all traces"] as const;
export type SwitchedPart = (typeof switchedParts)[number];

/** Both sides of a pair serve so many requests, one after the other. */
export interface SwitchTrial {
  readonly off: readonly SwitchedPart[];
  readonly on: readonly SwitchedPart[];
  readonly requests: number;
  readonly pairs: number;
}

/** Microseconds of processor time for a request. */
export interface SwitchPair {
  readonly off: number;
  readonly on: number;
}
