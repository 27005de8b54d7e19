import type { Mark } from "./marks.ts";

/** From the least to the worst. */
const order = ["loaded", "restarted", "failed"] as const satisfies readonly Mark["what"][];

interface DrawnMark {
  readonly x: number;
  readonly what: Mark["what"];
}

/** Marks that are no farther from another than `distance`, as one at the first of them: the worst, with how many they are. */
export function merged(
  marks: readonly DrawnMark[],
  distance: number,
): readonly (DrawnMark & { readonly count: number })[] {
  const all: (DrawnMark & { readonly count: number })[] = [];
  for (const { x, what } of marks.toSorted((one, other) => one.x - other.x)) {
    const last = all.at(-1);
    if (last === undefined || x - last.x > distance) all.push({ x, what, count: 1 });
    else {
      const worst = order.indexOf(what) > order.indexOf(last.what) ? what : last.what;
      all.splice(-1, 1, { x: last.x, what: worst, count: last.count + 1 });
    }
  }
  return all;
}
