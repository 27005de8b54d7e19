import type { JSX } from "preact";

/** A line without axes or numbers, which a reader of the screen skips: its figure stands beside it. Null: a gap. */
export function Spark({
  values,
  most = 1e-9,
}: {
  readonly values: readonly (number | null)[];
  /** The value at the top of the picture; left out: the largest of the values. */
  readonly most?: number;
}): JSX.Element {
  // A hundred slots at rest are a hundred straight lines.
  const drawn = values.some((value) => value !== null && value > 0) ? values : [0, 0];
  const top = Math.max(most, ...drawn.map((value) => value ?? 0));
  const last = Math.max(1, drawn.length - 1);
  const runs: { readonly from: number; readonly values: number[] }[] = [];
  for (const [at, value] of drawn.entries()) {
    if (value === null) continue;
    if (at === 0 || drawn[at - 1] === null) runs.push({ from: at, values: [] });
    runs.at(-1)?.values.push(value);
  }
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      {runs.map(({ from, values: run }) => {
        // A single value is as wide as a step.
        const all = run.length === 1 ? [...run, ...run] : run;
        const x = (at: number): string => (((from + at) * 100) / last).toFixed(1);
        const points = all.map((value, at) => `${x(at)},${(23 - (22 * value) / top).toFixed(1)}`).join(" ");
        return (
          <>
            <polygon points={`${x(0)},24 ${points} ${x(all.length - 1)},24`} />
            <polyline points={points} />
          </>
        );
      })}
    </svg>
  );
}
