/** The input of the load program (JSON in its one argument) and its result (JSON on standard output). */

export interface StreamsSpec {
  readonly port: number;
  /** Named by the request; `expectModel` by every event of its answer. */
  readonly model: string;
  readonly expectModel: string;
  readonly streams: number;
  readonly events: number;
  /** Requests leave spread over this time, once every connection stands; absent: each as soon as its own does. */
  readonly rampMs?: number | undefined;
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
}

export interface Spread {
  readonly p50: number;
  readonly p99: number;
}
