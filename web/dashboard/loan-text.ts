import { duration } from "../../src/api/duration.ts";

/** How long a loan goes on, e.g. `1h59m0s left`. */
export function loanLeft(until: string, now: number): string {
  const seconds = Math.ceil((Date.parse(until) - now) / 1000);
  return seconds <= 0 ? "ends now" : `${duration(seconds)} left`;
}
