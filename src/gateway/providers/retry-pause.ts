/** A provider that requests a longer pause is not retried automatically. */
export const longestPauseMs = 5000;

/** The pause before the next attempt. Half of it is random, so that requests that failed together are not repeated together. */
export function retryPauseMs(tries: number, backoffMs: number): number {
  return Math.min(longestPauseMs, backoffMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
}

/** The pause that a `retry-after` header requests, in seconds or until a date; 0 without one. */
export function requestedPauseMs(retryAfter = ""): number {
  const ms = /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : Date.parse(retryAfter) - Date.now();
  return ms > 0 ? ms : 0;
}
