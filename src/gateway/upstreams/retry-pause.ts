/** A provider that requests a longer pause is not retried automatically. */
export const longestPauseMs = 5000;

/** The pause before the next attempt. Half of it is random, so that requests that failed together are not repeated together. */
export function retryPauseMs(tries: number, backoffMs: number): number {
  return Math.min(longestPauseMs, backoffMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
}

/** The pause that a `retry-after` header in seconds requests; 0 without one. */
export function requestedPauseMs(retryAfter: string | undefined): number {
  return /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) * 1000 : 0;
}
