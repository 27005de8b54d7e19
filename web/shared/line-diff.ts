import { diffArrays } from "diff";

export interface DiffLine {
  readonly kind: "same" | "added" | "removed";
  readonly line: string;
}

/** Beyond this, two texts have little in common: finding it would hold the page. */
const maxEditLength = 500;

/** The lines of two texts, common ones once. */
export function lineDifferences(before: string, after: string): readonly DiffLine[] {
  const [old, fresh] = [before.split("\n"), after.split("\n")];
  const other = [
    { removed: true, added: false, value: old },
    { removed: false, added: true, value: fresh },
  ];
  return (diffArrays(old, fresh, { maxEditLength }) ?? other).flatMap(({ added, removed, value }) => {
    const kind = added ? "added" : removed ? "removed" : "same";
    return value.map((line) => ({ kind, line }) as const);
  });
}
