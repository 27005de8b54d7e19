import type { Result } from "./bar.ts";

export interface Measured extends Result {
  /** CPU that others took meanwhile, in cores. */
  readonly noiseCores: number;
  readonly isNoisy: boolean;
}

/** The table that a run ends with, in Markdown. */
export function table(measured: readonly Measured[]): string {
  const rows = measured.map(({ bar, measured: figure, target, isMet, isNoisy, noiseCores }) => [
    bar,
    figure,
    target,
    verdict(isMet) + (isNoisy ? ` (others took ${noiseCores.toFixed(1)} cores)` : ""),
  ]);
  const all = [["bar", "measured", "target", ""], ...rows];
  const widths = [0, 1, 2, 3].map((column) => Math.max(3, ...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = all;
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body.map(line)].join("\n");
}

function verdict(isMet: boolean | undefined): string {
  return isMet === undefined ? "" : isMet ? "met" : "missed";
}
