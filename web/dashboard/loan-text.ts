import { duration } from "../shared/format.ts";

/** How long a loan goes on, e.g. `1 h 59 min left`. */
export function loanLeft(until: string, now: number): string {
  const seconds = Math.ceil((Date.parse(until) - now) / 1000);
  return seconds <= 0 ? "ends now" : `${duration(seconds)} left`;
}
