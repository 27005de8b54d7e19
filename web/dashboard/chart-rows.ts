interface Series {
  readonly values: readonly (number | null)[];
}

interface ChartRow {
  /** Seconds since the epoch. */
  readonly at: number;
  /** The mean of each series within the minute; null: it has no value there. */
  readonly values: readonly (number | null)[];
}

/** The chart as rows, one a minute, the newest first. */
export function chartRows(times: readonly number[], series: readonly Series[]): readonly ChartRow[] {
  const minutes = Map.groupBy(times.keys(), (nth) => Math.floor((times[nth] ?? 0) / 60));
  return [...minutes].toReversed().map(([minute, places]) => ({
    at: minute * 60,
    values: series.map(({ values }) => {
      const known = places.flatMap((nth) => values[nth] ?? []);
      return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
    }),
  }));
}
