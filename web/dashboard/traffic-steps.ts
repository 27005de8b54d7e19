import type { TrafficView } from "../../src/api/management/traffic-view.ts";

type Series = TrafficView["series"][number];
type Figure = Exclude<keyof Series, "slot" | "first_token_ms">;

/** Steps of the charts: fifteen minutes of five seconds. */
export const shownSteps = 180;
const stepMs = 5000;

/** A history with the steps that another one has after it; the quiet steps between the two have no event. */
export function joined(before: TrafficView, after: TrafficView): TrafficView {
  const later = Math.round((Date.parse(after.ended_at) - Date.parse(before.ended_at)) / stepMs);
  if (later <= 0) return before;
  const known = Math.min(later, after.steps);
  // A page that was at rest for days has one long gap.
  const gap = Math.min(shownSteps, later - known);
  const names = new Set([...before.series, ...after.series].map(({ slot }) => slot));
  const steps = Math.min(shownSteps, before.steps + later);
  const series = [...names].map((slot): Series => {
    const [old, now] = [before, after].map((view) => view.series.find((each) => each.slot === slot));
    const list = <T>(pick: (series: Series) => readonly T[], none: T): T[] =>
      [
        ...(old === undefined ? filled(before.steps, none) : pick(old)),
        ...filled(gap, none),
        ...(now === undefined ? filled(known, none) : pick(now).slice(-known)),
      ].slice(-steps);
    return {
      slot,
      requests: list((each) => each.requests, 0),
      errors: list((each) => each.errors, 0),
      tokens_in: list((each) => each.tokens_in, 0),
      tokens_out: list((each) => each.tokens_out, 0),
      in_flight: list((each) => each.in_flight, 0),
      waiting: list((each) => each.waiting, 0),
      first_token_ms: list((each) => each.first_token_ms, null),
    };
  });
  return { ...after, steps, series };
}

/** A history that goes on for that long without a step: the server sends none while nothing happens. */
export function withQuiet(before: TrafficView, quietMs: number): TrafficView {
  const steps = Math.floor(quietMs / stepMs);
  const endedAt = new Date(Date.parse(before.ended_at) + steps * stepMs).toISOString();
  return steps <= 0 ? before : joined(before, { ...before, ended_at: endedAt, steps: 0, series: [] });
}

/** One figure of one slot, or the sum of all, for every step until now: the newest last. */
export function figureOf(view: TrafficView | undefined, figure: Figure, slot?: string): number[] {
  const sum = filled(shownSteps, 0);
  for (const series of view?.series ?? []) {
    if (slot !== undefined && series.slot !== slot) continue;
    const values = series[figure];
    for (let back = 1; back <= values.length; back += 1) {
      const at = shownSteps - back;
      sum[at] = (sum[at] ?? 0) + (values.at(-back) ?? 0);
    }
  }
  return sum;
}

const shares = { p50: 0.5, p95: 0.95 } as const;
type Share = keyof typeof shares;
type FirstToken = NonNullable<Series["first_token_ms"][number]>;

/** Milliseconds until the first token: the median, or the 95th of a hundred, of each step; null: no stream ended in it. */
export function firstTokens(view: TrafficView | undefined, share: Share, slot?: string): (number | null)[] {
  const some = (view?.series ?? []).filter((series) => slot === undefined || series.slot === slot);
  return Array.from({ length: shownSteps }, (_, at) =>
    ofAll(
      some.flatMap((series) => series.first_token_ms.at(at - shownSteps) ?? []),
      share,
    ),
  );
}

/** The same of all streams that the history has. */
export function firstToken(view: TrafficView | undefined, share: Share): number | null {
  const all = (view?.series ?? []).flatMap((series) => series.first_token_ms.flatMap((each) => each ?? []));
  return ofAll(all, share);
}

/** Exact where each has one stream; else near, since each counts with as many streams as it is of. */
function ofAll(all: readonly FirstToken[], share: Share): number | null {
  const streams = all.reduce((sum, { count }) => sum + count, 0);
  let below = 0;
  const found = all
    .toSorted((one, other) => one[share] - other[share])
    .find(({ count }) => (below += count) >= shares[share] * streams);
  return found?.[share] ?? null;
}

function filled<T>(length: number, value: T): T[] {
  return Array.from({ length: Math.max(0, length) }, () => value);
}
