/** What one look at a Berth under load has found. */
export interface Figures {
  readonly gatewayMiB: number;
  readonly operatorMiB: number;
  readonly descriptors: number;
  readonly files: number;
  /** The longest delay of the gateway's event loop since the look before, less that of a process beside it. */
  readonly lagMs: number;
}

/** How much the median of the last third may be above that of the second: part and, for small figures, number. */
const allowed = {
  gatewayMiB: [0.15, 20],
  operatorMiB: [0.15, 20],
  descriptors: [0.2, 30],
  files: [0.1, 20],
  // Other work of the machine shows here too.
  lagMs: [1, 150],
} as const;

/** A line for each figure that went on growing. The first third is left out: V8 and caches take what they need. */
export function growth(figures: readonly Figures[]): string[] {
  const third = Math.floor(figures.length / 3);
  const lines: string[] = [];
  for (const name of ["gatewayMiB", "operatorMiB", "descriptors", "files", "lagMs"] as const) {
    const values = figures.map((each) => each[name]);
    const [before, after] = [median(values.slice(third, 2 * third)), median(values.slice(2 * third))];
    const [part, number] = allowed[name];
    // Also true where a figure was not read.
    if (!(after <= before * (1 + part) + number)) lines.push(`${name} grew from ${before} to ${after}`);
  }
  return lines;
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[values.length >> 1] ?? Number.NaN;
}
