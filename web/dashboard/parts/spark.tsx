import type { JSX } from "preact";

/** A line without axes or numbers, which a reader of the screen skips: its figure stands beside it. */
export function Spark({ values }: { readonly values: readonly number[] }): JSX.Element {
  // A hundred slots at rest are a hundred straight lines.
  const drawn = values.some((value) => value > 0) ? values : [0, 0];
  const top = Math.max(1e-9, ...drawn);
  const last = Math.max(1, drawn.length - 1);
  const points = drawn.map((value, at) => `${((at * 100) / last).toFixed(1)},${(23 - (22 * value) / top).toFixed(1)}`);
  return (
    <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">
      <polygon points={`0,24 ${points.join(" ")} 100,24`} />
      <polyline points={points.join(" ")} />
    </svg>
  );
}
