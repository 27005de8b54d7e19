import type { Pinned } from "./machine/pinned.ts";

/** One line of the table. */
export interface Result {
  readonly bar: string;
  readonly measured: string;
  readonly target: string;
  /** Undefined: the figure is printed for orientation only and has no target. */
  readonly isMet?: boolean;
}

export interface Bench {
  /** How often each side of a comparison runs, in turn. */
  readonly rounds: number;
  /** An earlier commit to measure beside the present one (`AGAINST=COMMIT`), by the bars that can. */
  readonly against?: Pinned | undefined;
  say(line: string): void;
}

export interface Bar {
  readonly name: string;
  readonly about: string;
  run(bench: Bench): Promise<readonly Result[]>;
}

export function atMost(bar: string, value: number, limit: number, unit: string, more = ""): Result {
  return {
    bar,
    measured: `${figure(value)}${unit}${more}`,
    target: `≤ ${figure(limit)}${unit}`,
    isMet: value <= limit,
  };
}

export function atLeast(bar: string, value: number, limit: number, unit: string, more = ""): Result {
  return {
    bar,
    measured: `${figure(value)}${unit}${more}`,
    target: `≥ ${figure(limit)}${unit}`,
    isMet: value >= limit,
  };
}

export function told(bar: string, measured: string): Result {
  return { bar, measured, target: "–" };
}

/** Three digits that matter, without an exponent. */
export function figure(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2);
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** The p-th part of the values, 0 < share ≤ 1. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** ` (0.41-0.47)`: the smallest and the largest of several. */
export function range(values: readonly number[]): string {
  return ` (${figure(Math.min(...values))}–${figure(Math.max(...values))})`;
}

export const mebibyte = 1024 * 1024;
