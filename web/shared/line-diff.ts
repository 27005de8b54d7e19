export interface DiffLine {
  readonly kind: "same" | "added" | "removed";
  readonly line: string;
}

/** Beyond this, lines are compared at both ends only: the table of the comparison grows with the square. */
const longestMiddle = 1500;

/** The lines of two texts, common ones once: a longest common subsequence between the common head and tail. */
export function lineDifferences(before: string, after: string): readonly DiffLine[] {
  const [old, fresh] = [before.split("\n"), after.split("\n")];
  let head = 0;
  while (head < old.length && head < fresh.length && old[head] === fresh[head]) head += 1;
  let tail = 0;
  while (
    tail < old.length - head &&
    tail < fresh.length - head &&
    old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]
  )
    tail += 1;
  const same = (lines: readonly string[]): DiffLine[] => lines.map((line) => ({ kind: "same", line }));
  return [
    ...same(old.slice(0, head)),
    ...middle(old.slice(head, old.length - tail), fresh.slice(head, fresh.length - tail)),
    ...same(old.slice(old.length - tail)),
  ];
}

function middle(old: readonly string[], fresh: readonly string[]): DiffLine[] {
  const removed = (line: string): DiffLine => ({ kind: "removed", line });
  const added = (line: string): DiffLine => ({ kind: "added", line });
  if (Math.max(old.length, fresh.length) > longestMiddle) return [...old.map(removed), ...fresh.map(added)];
  // common[i][j]: the length of the longest common subsequence of old from i and fresh from j.
  const width = fresh.length + 1;
  const common = new Uint16Array((old.length + 1) * width);
  const lengthAt = (i: number, j: number): number => common[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1)
    for (let j = fresh.length - 1; j >= 0; j -= 1)
      common[i * width + j] =
        old[i] === fresh[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1));
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < fresh.length) {
    const [one, other] = [old[i], fresh[j]];
    if (one !== undefined && one === other) {
      lines.push({ kind: "same", line: one });
      i += 1;
      j += 1;
    } else if (one !== undefined && (other === undefined || lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      lines.push(removed(one));
      i += 1;
    } else {
      lines.push(added(other ?? ""));
      j += 1;
    }
  }
  return lines;
}
