import type { JSX } from "preact";

/** A line of figures without axes; its last figure stands beside it as text. */
export function Spark({ values, label }: { readonly values: readonly number[]; readonly label: string }): JSX.Element {
  const top = Math.max(1, ...values);
  const points = values
    .map(
      (value, at) =>
        `${((at * 90) / Math.max(1, values.length - 1)).toFixed(1)},${(21 - (20 * value) / top).toFixed(1)}`,
    )
    .join(" ");
  return (
    <svg class="spark" viewBox="0 0 90 22" role="img" aria-label={label}>
      <polyline points={points} />
    </svg>
  );
}
