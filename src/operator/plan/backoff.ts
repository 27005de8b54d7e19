export interface Backoff {
  readonly firstMs: number;
  readonly limitMs: number;
  /** 0 ≤ value < 1; replaced in tests. */
  readonly random: () => number;
}

export const defaultBackoff: Backoff = { firstMs: 1000, limitMs: 300_000, random: Math.random };

/**
 * Exponential delay after the `failures`-th failure in a row (1, 2, …), ± 10 % so that many do not retry together;
 * never longer than the limit.
 */
export function backoffMs(failures: number, { firstMs, limitMs, random }: Backoff = defaultBackoff): number {
  const exact = Math.min(limitMs / 1.1, firstMs * 2 ** Math.min(30, Math.max(0, failures - 1)));
  return Math.round(exact * (0.9 + 0.2 * random()));
}
