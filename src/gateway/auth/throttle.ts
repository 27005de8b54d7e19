import { steadyNow } from "../../lib/steady-clock.ts";

interface Failures {
  count: number;
  /** By the steady clock. */
  endsAt: number;
}

/**
 * Counts failures per peer in windows of a minute. Holds at most `peerLimit` peers, the peer with the oldest failure is
 * removed first: memory is bounded for any number of peers.
 */
export class FailureThrottle {
  readonly #failureLimit: number;
  readonly #windowMs: number;
  readonly #peerLimit: number;
  readonly #now: () => number;
  readonly #peers = new Map<string, Failures>();

  constructor(options: { failureLimit?: number; windowMs?: number; peerLimit?: number; now?: () => number } = {}) {
    this.#failureLimit = options.failureLimit ?? 20;
    this.#windowMs = options.windowMs ?? 60_000;
    this.#peerLimit = options.peerLimit ?? 10_000;
    this.#now = options.now ?? steadyNow;
  }

  get size(): number {
    return this.#peers.size;
  }

  /**
   * Counts one failure. Undefined while the peer is within its limit; else the seconds until it is again, and whether
   * this failure is the first beyond the limit.
   */
  failed(peer: string): { retryAfterSeconds: number; isFirst: boolean } | undefined {
    const now = this.#now();
    const known = this.#peers.get(peer);
    const failures = known === undefined || known.endsAt <= now ? { count: 0, endsAt: now + this.#windowMs } : known;
    failures.count += 1;
    this.#peers.delete(peer);
    this.#peers.set(peer, failures);
    if (this.#peers.size > this.#peerLimit) {
      const [oldest] = this.#peers.keys();
      if (oldest !== undefined) this.#peers.delete(oldest);
    }
    const excess = failures.count - this.#failureLimit;
    if (excess <= 0) return undefined;
    return { retryAfterSeconds: Math.max(1, Math.ceil((failures.endsAt - now) / 1000)), isFirst: excess === 1 };
  }
}
