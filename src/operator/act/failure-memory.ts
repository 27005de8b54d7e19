/** A program that failed is not started again for this time, unless its question changes. */
const restMs = 5 * 60_000;
/** Failures that are remembered; the oldest one is forgotten first. */
const most = 256;

/** Questions that a program has failed to answer a short time ago: each try starts a process. */
export class FailureMemory {
  readonly #failedAt = new Map<string, Date>();

  /** The answer; undefined where there is none, or where there was none a short time ago. */
  async unlessFailed<T>(key: string, now: Date, ask: () => Promise<T | undefined>): Promise<T | undefined> {
    const failedAt = this.#failedAt.get(key);
    // Where the clock was set back, the elapsed time is unknown.
    if (failedAt !== undefined && Math.abs(now.getTime() - failedAt.getTime()) < restMs) return undefined;
    this.#failedAt.delete(key);
    const answer = await ask();
    if (answer !== undefined) return answer;
    this.#failedAt.set(key, now);
    for (const [oldest] of this.#failedAt) if (this.#failedAt.size > most) this.#failedAt.delete(oldest);
    return undefined;
  }
}
