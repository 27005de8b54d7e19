import { byteFigure } from "../../src/api/byte-text.ts";
import { duration as wholeSeconds } from "../../src/api/duration.ts";

const nothing = "–";

/** A size, e.g. `4.3 GiB`; a dash where the size is not known. */
export function bytes(value: number | null | undefined): string {
  return value === null || value === undefined ? nothing : byteFigure(value);
}

/** A time in seconds, e.g. `0.4 s` or `3 min 12 s`; a dash where the time is not known. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return nothing;
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const parts = wholeSeconds(Math.round(seconds)).matchAll(/(\d+)(\D)/g);
  return [...parts].map(([, figure, unit]) => `${figure} ${unit === "m" ? "min" : unit}`).join(" ");
}

/** How much of a total is done, e.g. `41 %`; undefined where no total is known. */
export function percent(done: number, total: number | null | undefined): string | undefined {
  return total === null || total === undefined || total <= 0 ? undefined : `${Math.floor((100 * done) / total)} %`;
}

/** An instant in the words of the browser: of today the time alone. */
export function time(at: string | null | undefined): string {
  if (at === null || at === undefined) return nothing;
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : date.toLocaleString();
}

/** A time that may be very short, e.g. `41 ms` or `1.2 s`. */
export function shortTime(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** How long ago an instant was, e.g. `3 min ago`; its date where that is more than a day. */
export function ago(at: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(at)) / 1000));
  if (seconds < 10) return "now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(at).toLocaleDateString();
}
