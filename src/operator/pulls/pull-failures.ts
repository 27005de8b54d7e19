import type { Logger } from "pino";
import type { PullStatus } from "../../api/pull.ts";
import type { PullState } from "../../models/fetch/model-preparation.ts";
import { amountOf } from "../../models/fetch/progress.ts";

/** How far a pull is, and why it does not go on. */
export type Counts = Pick<PullStatus, "state" | "bytesDone" | "stalls"> &
  Partial<Pick<PullStatus, "bytesTotal" | "bytesPerSecond" | "retryAt" | "error">>;

export function countsOf(job: PullState | undefined): Counts {
  if (job === undefined) return { state: "queued", bytesDone: 0, stalls: 0 };
  const counts = { ...amountOf(job.progress), stalls: job.progress.stalls };
  if (job.state !== "failed") {
    const { trouble } = job.progress;
    const isTried = job.state === "running" && trouble !== undefined;
    return { ...counts, state: job.state, ...(isTried ? { error: { reason: "FetchFailed", message: trouble } } : {}) };
  }
  const { reason, message, isTerminal } = job.failure;
  const retry = job.retryAt === undefined ? {} : { retryAt: job.retryAt.toISOString() };
  return { ...counts, state: isTerminal ? "failed" : "queued", error: { reason, message }, ...retry };
}

const defaultGiveUpMs = 3_600_000;

/**
 * Judges failed attempts of pulls that people have requested. A cause is logged once for each pull: an attempt follows
 * the other for as long as there is no network.
 */
export class PullFailures {
  readonly #log: Logger;
  readonly #giveUpMs: number;
  readonly #logged = new Map<string, Set<string>>();

  /** `giveUpMs`: a pull without a byte for so long ends; absent: an hour. */
  constructor(log: Logger, giveUpMs = defaultGiveUpMs) {
    this.#log = log;
    this.#giveUpMs = giveUpMs;
  }

  /** The end of the pull, or undefined while another attempt follows. */
  endOf(pull: Pick<PullStatus, "id" | "ref">, job: Extract<PullState, { state: "failed" }>): Counts | undefined {
    const { reason, message, isTerminal } = job.failure;
    const idleMs = performance.now() - job.progress.movedAt;
    const isGivenUp = !isTerminal && idleMs >= this.#giveUpMs;
    const minutes = Math.round(this.#giveUpMs / 60_000);
    const end = isGivenUp
      ? `; given up after ${minutes} min without a byte: pull it again, and it goes on with what has come`
      : "";
    const next = isTerminal || isGivenUp ? "" : `; it is tried again for ${minutes} min, less and less often`;
    this.#tell(pull, reason, `${message}${end}${next}`);
    if (!isTerminal && !isGivenUp) return undefined;
    const { retryAt: _none, ...counts } = countsOf(job);
    return { ...counts, state: "failed", error: { reason, message: `${message}${end}` } };
  }

  /** The pull is over: a later one of that id logs its causes again. */
  forget(id: string): void {
    this.#logged.delete(id);
  }

  #tell({ id, ref }: Pick<PullStatus, "id" | "ref">, reason: string, text: string): void {
    const logged = this.#logged.get(id) ?? new Set();
    this.#logged.set(id, logged);
    if (logged.has(text)) return;
    logged.add(text);
    this.#log.warn({ reason }, `model ${ref} cannot be fetched: ${text}`);
  }
}
