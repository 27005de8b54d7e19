/** Limits the bytes per second of all downloads together. */
export class RateLimit {
  readonly #bytesPerSecond: number;
  #paidUntil = 0;

  /** 0: no limit. */
  constructor(bytesPerSecond = 0) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Counts received bytes. Returns for how many milliseconds the caller must not read. */
  taken(bytes: number, now = performance.now()): number {
    if (this.#bytesPerSecond === 0) return 0;
    this.#paidUntil = Math.max(this.#paidUntil, now) + (bytes * 1000) / this.#bytesPerSecond;
    return this.#paidUntil - now;
  }
}
